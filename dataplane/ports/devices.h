#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "common/result.h"
#include "dataplane/ports/links.h"
#include "dataplane/ports/mbuf_pools.h"
#include "dataplane/ports/port_plan.h"
#include "dataplane/ports/port_setup.h"

namespace weir::dataplane {

// Every DPDK port there is.
std::vector<Device> list_devices();
// Two net_null ports: sources and sinks of nothing, for a machine without ports.
Result<void> add_virtual_ports();

// The planned ports with their mbuf pools: configured, started, stopped, closed, and every mbuf accounted for.
class Devices {
 public:
  // Configures all ports of the plan and starts none. n_lcores: each keeps a cache of mbufs.
  static Result<Devices> configure(const PortPlan& plan, const Config& config, unsigned n_lcores);
  // Then rows() say what the devices really give.
  Result<void> start();
  const std::vector<PortRow>& rows() const { return rows_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  // As the links are at the start.
  LinkWatch watch_links() const;

  // Frames that the ports lost before a worker saw them, since the start.
  uint64_t rx_missed() const;

  // Stops and closes every port, then counts. No worker runs any more.
  MbufCount close();

 private:
  std::vector<PortRow> rows_;
  std::vector<PlannedPort> planned_;  // of each row
  std::vector<std::string> warnings_;
  MbufPools pools_;
};

}  // namespace weir::dataplane
