#pragma once

namespace weir::dataplane {

// From now on what DPDK says, from its first line, goes the way of the program's own events. Before rte_eal_init().
void take_dpdk_log();

}  // namespace weir::dataplane
