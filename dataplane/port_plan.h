#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "dataplane/config.h"

// Which queue of which port is polled by which worker, and where its frames go. Pure: no DPDK, so that every rule has a
// test.
namespace weir::dataplane {

// What a port offers (rte_eth_dev_info).
struct Device {
  uint16_t port;
  std::string name;
  uint16_t max_rx_queues;
  uint16_t max_tx_queues;
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

struct PlannedPort {
  uint16_t port;
  uint16_t rx_queues;
  uint16_t tx_queues;
  uint16_t descriptors;  // 0: what the driver prefers
};

struct PortPlan {
  std::vector<PlannedPort> ports;          // the drop_port last, if there is one
  std::vector<std::vector<Route>> routes;  // [worker]: queues dealt round-robin
};

// A transmit queue has one user, so nothing needs a lock: queue q of a partner belongs to the worker that polls (port,
// q), and the drop_port has one queue per worker that has work.
PortPlan plan_ports(const Config& config, const std::vector<Device>& devices, uint32_t n_workers,
                    Diagnostics& diagnostics);

}  // namespace weir::dataplane
