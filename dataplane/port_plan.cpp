#include "dataplane/port_plan.h"

#include <algorithm>

namespace weir::dataplane {

namespace {

class Planner {
 public:
  Planner(const Config& config, const std::vector<Device>& devices, Diagnostics& diagnostics)
      : config_(config), devices_(devices), diagnostics_(diagnostics) {}

  PortPlan plan(uint32_t n_workers) {
    const std::vector<PortConfig> ports = chosen_ports();
    PortPlan plan;
    if (!check_pairs(ports)) return plan;
    for (const PortConfig& port : ports) add_port(port, plan);
    plan.routes = deal(ports, n_workers);
    add_drop_port(plan);
    return plan;
  }

 private:
  std::vector<PortConfig> chosen_ports() const {
    if (config_.ports) return *config_.ports;
    std::vector<PortConfig> all;
    for (const Device& device : devices_) {
      if (config_.drop_port == device.port) continue;
      PortConfig& port = all.emplace_back();
      port.port = device.port;
    }
    return all;
  }

  void error(const Place& place, std::string message, std::string hint) {
    diagnostics_.add({Severity::error, place.where, std::move(message), place.source_line, std::move(hint)});
  }

  std::string known_ports() const {
    std::string text;
    for (const Device& device : devices_) {
      if (!text.empty()) text += ", ";
      text += std::to_string(device.port) + " (" + device.name + ")";
    }
    return text.empty() ? "there are none" : "there are: " + text;
  }

  const Device* find(uint16_t port, const Place& place) {
    for (const Device& device : devices_) {
      if (device.port == port) return &device;
    }
    error(place, "port " + std::to_string(port) + " does not exist",
          known_ports() + "; EAL's --vdev and --allow make more, dpdk-devbind.py shows the network cards");
    return nullptr;
  }

  // Of ports that the file lists, read_config has checked it already.
  bool check_pairs(const std::vector<PortConfig>& ports) {
    if (ports.empty()) {
      error(config_.drop_port_place, "there is no port to receive from", known_ports());
      return false;
    }
    if (config_.forward != Forward::pair || ports.size() % 2 == 0) return true;
    error(config_.forward_place,
          "`forward: pair` needs an even number of ports, here are " + std::to_string(ports.size()),
          "list the ports to use in `ports`, or write `forward: hairpin` or `forward: sink`; " + known_ports());
    return false;
  }

  void add_port(const PortConfig& port, PortPlan& plan) {
    const Device* device = find(port.port, port.place);
    if (device == nullptr) return;
    const uint16_t tx_queues = config_.forward == Forward::sink ? uint16_t{0} : port.queues;
    if (port.queues > device->max_rx_queues || tx_queues > device->max_tx_queues) {
      error(port.place,
            "port " + std::to_string(port.port) + " (" + device->name + ") offers " +
                std::to_string(device->max_rx_queues) + " receive and " + std::to_string(device->max_tx_queues) +
                " transmit queues, " + std::to_string(port.queues) + " of each are asked for",
            "ask for fewer `queues`, or give the device more (net_null, net_ring, net_pcap: by their arguments)");
    }
    plan.ports.push_back({port.port, port.queues, tx_queues, port.descriptors});
  }

  Route route(const std::vector<PortConfig>& ports, size_t i, uint16_t queue) const {
    Route route;
    route.in = {ports[i].port, queue};
    route.sink = config_.forward == Forward::sink;
    const size_t out = config_.forward == Forward::pair ? i ^ 1 : i;
    route.out = {ports[out].port, queue};
    return route;
  }

  std::vector<std::vector<Route>> deal(const std::vector<PortConfig>& ports, uint32_t n_workers) const {
    std::vector<std::vector<Route>> routes(n_workers);
    size_t next = 0;
    for (size_t i = 0; i < ports.size(); i++) {
      for (uint16_t queue = 0; queue < ports[i].queues; queue++, next++) {
        routes[next % n_workers].push_back(route(ports, i, queue));
      }
    }
    return routes;
  }

  void add_drop_port(PortPlan& plan) {
    if (!config_.drop_port) return;
    const Device* device = find(*config_.drop_port, config_.drop_port_place);
    if (device == nullptr) return;
    uint16_t queue = 0;
    for (std::vector<Route>& routes : plan.routes) {
      for (Route& route : routes) {
        route.has_capture = true;
        route.capture = {device->port, queue};
      }
      queue = static_cast<uint16_t>(queue + !routes.empty());
    }
    if (queue > device->max_tx_queues) {
      error(config_.drop_port_place,
            "`drop_port` " + std::to_string(device->port) + " (" + device->name + ") offers " +
                std::to_string(device->max_tx_queues) + " transmit queues, one for each of " + std::to_string(queue) +
                " workers is needed",
            "use fewer workers (EAL's -l), or a device with more queues");
    }
    plan.ports.push_back({device->port, 0, queue, 0});
  }

  const Config& config_;
  const std::vector<Device>& devices_;
  Diagnostics& diagnostics_;
};

}  // namespace

PortPlan plan_ports(const Config& config, const std::vector<Device>& devices, uint32_t n_workers,
                    Diagnostics& diagnostics) {
  return Planner(config, devices, diagnostics).plan(n_workers);
}

}  // namespace weir::dataplane
