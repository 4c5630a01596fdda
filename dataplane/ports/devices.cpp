#include "dataplane/ports/devices.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>

#include <algorithm>

namespace weir::dataplane {

namespace {

// Where the mbufs of a port come from: its node, or ours when it has none.
int pool_node(const PortRow& row) {
  return row.numa_node >= 0 ? row.numa_node : static_cast<int>(rte_socket_id());
}

// Rings whose mbufs may come from the pool of the node: its receive rings, and every transmit ring.
uint64_t descriptors_for(const std::vector<PortSetup>& setups, int numa_node) {
  uint64_t descriptors = 0;
  for (const PortSetup& setup : setups) {
    const PortRow& row = setup.row;
    if (pool_node(row) == numa_node) descriptors += uint64_t{row.rx_queues} * row.rx_descriptors;
    descriptors += uint64_t{row.tx_queues} * row.tx_descriptors;
  }
  return descriptors;
}

// net_af_xdp frees its queues on close, but not the mbufs that wait in them for frames (eth_dev_close of
// drivers/net/af_xdp/rte_eth_af_xdp.c, DPDK 22.11 to 24.11).
uint64_t most_kept_by(const PortRow& row) {
  if (row.driver != "net_af_xdp") return 0;
  return uint64_t{row.rx_queues} * (row.rx_descriptors + row.tx_descriptors);
}

// Whose frames lie in queues of this process, which closing the port does not free.
bool keeps_frames(const PortRow& row) {
  return row.spread || row.driver == "net_ring";
}

// Frames that no worker took any more.
void empty_queues(const PortRow& row) {
  constexpr uint16_t kAtOnce = 64;
  rte_mbuf* frames[kAtOnce];
  for (uint16_t queue = 0; queue < row.rx_queues; queue++) {
    while (const uint16_t n = rte_eth_rx_burst(row.port, queue, frames, kAtOnce)) rte_pktmbuf_free_bulk(frames, n);
  }
}

uint16_t max_mtu_of(const rte_eth_dev_info& info) {
  if (is_virtual(info)) return UINT16_MAX;
  const uint32_t by_length = info.max_rx_pktlen - std::min(info.max_rx_pktlen, frame_overhead(info));
  return static_cast<uint16_t>(std::min<uint32_t>(info.max_mtu, by_length));
}

}  // namespace

std::vector<Device> list_devices() {
  std::vector<Device> devices;
  for (uint16_t port = rte_eth_find_next(0); port < RTE_MAX_ETHPORTS;
       port = rte_eth_find_next(static_cast<uint16_t>(port + 1))) {
    rte_eth_dev_info info = {};
    if (rte_eth_dev_info_get(port, &info) != 0) continue;
    Device& device = devices.emplace_back();
    device.port = port;
    device.name = port_name(port);
    device.max_rx_queues = info.max_rx_queues;
    device.max_tx_queues = info.max_tx_queues;
    device.numa_node = std::max(rte_eth_dev_socket_id(port), kNoNode);
    device.least_descriptors = std::max(info.rx_desc_lim.nb_min, info.tx_desc_lim.nb_min);
    device.most_descriptors = std::min(info.rx_desc_lim.nb_max, info.tx_desc_lim.nb_max);
    device.max_mtu = max_mtu_of(info);
  }
  return devices;
}

Result<void> add_virtual_ports() {
  for (const char* name : {"net_null0", "net_null1"}) {
    const int error = rte_eal_hotplug_add("vdev", name, "");
    if (error != 0) {
      return Error{std::string("cannot make the virtual port ") + name + ": " + rte_strerror(-error) +
                   "; is the net_null driver of DPDK installed?"};
    }
  }
  return {};
}

Result<Devices> Devices::configure(const PortPlan& plan, const Config& config, unsigned n_lcores) {
  Devices devices;
  devices.planned_ = plan.ports;
  devices.warnings_ = plan.warnings;
  std::vector<PortSetup> setups;
  setups.reserve(plan.ports.size());
  bool any_scattered = false;
  const bool interrupts = config.idle.mode == IdleMode::interrupt;
  for (const PlannedPort& planned : plan.ports) {
    PortSetup& setup = setups.emplace_back();
    setup.planned = planned;
    Result<void> chosen = choose_setup(setup, config.data_room, devices.warnings_);
    if (!chosen) return Error{chosen.error()};
    any_scattered |= setup.row.scattered;
  }
  for (PortSetup& setup : setups) {
    Result<void> configured = configure_port(setup, any_scattered, interrupts, devices.warnings_);
    if (!configured) return Error{configured.error()};
  }
  for (const PortSetup& setup : setups) {
    const int node = pool_node(setup.row);
    if (setup.row.rx_queues > 0 && !devices.pools_.has(node)) {
      const uint32_t mbufs = config.mbufs.value_or(MbufPools::size_for(descriptors_for(setups, node), n_lcores));
      Result<void> added = devices.pools_.add(node, mbufs, config.data_room);
      if (!added) return Error{added.error()};
    }
    rte_mempool* pool = setup.row.rx_queues > 0 ? devices.pools_.on(node) : nullptr;
    Result<void> ready = set_up_queues(setup, pool);
    if (!ready) return Error{ready.error()};
    devices.rows_.push_back(setup.row);
  }
  return devices;
}

Result<void> Devices::start() {
  for (size_t i = 0; i < rows_.size(); i++) {
    if (Result<void> started = start_port(rows_[i], planned_[i].promiscuous); !started) return started;
  }
  return {};
}

LinkWatch Devices::watch_links() const {
  std::vector<LinkWatch::Port> ports;
  for (const PortRow& row : rows_) ports.push_back({row.port, row.name, row.link != "down"});
  return LinkWatch(std::move(ports));
}

uint64_t Devices::rx_missed() const {
  uint64_t missed = 0;
  for (const PortRow& row : rows_) {
    rte_eth_stats stats = {};
    if (rte_eth_stats_get(row.port, &stats) == 0) missed += stats.imissed + stats.rx_nombuf;
    if (row.sockets) missed += row.sockets->dropped();
  }
  return missed;
}

MbufCount Devices::close() {
  for (const PortRow& row : rows_) {
    if (keeps_frames(row)) empty_queues(row);
  }
  for (const PortRow& row : rows_) {
    rte_eth_dev_stop(row.port);
    rte_eth_dev_close(row.port);
  }
  MbufCount count = pools_.count_mbufs();
  for (const PortRow& row : rows_) count.most_kept += most_kept_by(row);
  pools_.free();
  return count;
}

}  // namespace weir::dataplane
