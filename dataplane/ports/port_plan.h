#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "dataplane/start/config.h"

// Which queue of which port is polled by which worker, and where its frames go. Pure: no DPDK, so that every rule has a
// test.
namespace weir::dataplane {

constexpr int kNoNode = -1;  // of a virtual port, or when nobody knows

// What a port offers (rte_eth_dev_info).
struct Device {
  uint16_t port;
  std::string name;
  uint16_t max_rx_queues;
  uint16_t max_tx_queues;
  int numa_node = kNoNode;
  uint16_t least_descriptors = 0;  // of either ring
  uint16_t most_descriptors = UINT16_MAX;
  uint16_t max_mtu = UINT16_MAX;
};

struct PortQueue {
  uint16_t port = 0;
  uint16_t queue = 0;
};

// Where the frames of one receive queue go.
struct Route {
  PortQueue in;
  PortQueue out;      // passed frames; unused when sink
  PortQueue capture;  // dropped frames; unused when !has_capture
  bool sink = false;
  bool has_capture = false;
};

// One hardware queue that a worker empties into software queues (spread.h): what is sent to queue i of `rings` is
// received from its queue i.
struct Spread {
  PortQueue in;
  uint16_t rings = 0;  // port number of a net_ring
  uint16_t n = 0;      // queues
};

struct PlannedPort {
  uint16_t port;
  uint16_t rx_queues;
  uint16_t tx_queues;
  uint16_t descriptors;  // 0: what the driver prefers
  uint16_t mtu = 0;      // 0: as the device has it
  bool promiscuous = true;
  bool is_spread = false;  // the net_ring of a Spread
};

struct PortPlan {
  std::vector<PlannedPort> ports;            // the drop_port last, if there is one
  std::vector<std::vector<Route>> routes;    // [worker]
  std::vector<std::vector<Spread>> spreads;  // [worker]
  std::vector<std::string> warnings;
};

// The net_ring that stands between a port with `spread` and the workers.
std::string spread_device(uint16_t port);

// worker_nodes: the NUMA node of each worker's CPU. Queues are dealt round-robin, to workers of the port's node first,
// so that no worker has more than its share.
//
// A transmit queue has one user, so nothing needs a lock: queue q of a partner belongs to the worker that polls (port,
// q), and the drop_port has one queue per worker that has work.
PortPlan plan_ports(const Config& config, const std::vector<Device>& devices, std::span<const int> worker_nodes,
                    Diagnostics& diagnostics);

}  // namespace weir::dataplane
