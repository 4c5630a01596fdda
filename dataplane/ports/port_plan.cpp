#include "dataplane/ports/port_plan.h"

#include <algorithm>
#include <numeric>

namespace weir::dataplane {

namespace {

class Planner {
 public:
  Planner(const Config& config, const std::vector<Device>& devices, Diagnostics& diagnostics)
      : config_(config), devices_(devices), diagnostics_(diagnostics) {}

  PortPlan plan(std::span<const int> worker_nodes) {
    const std::vector<PortConfig> ports = chosen_ports();
    PortPlan plan;
    if (!check_pairs(ports)) return plan;
    for (size_t i = 0; i < ports.size(); i++) add_port(ports, i, plan);
    if (diagnostics_.ok()) deal(ports, worker_nodes, plan);
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

  static std::string text_of(const Device& device) {
    return "port " + std::to_string(device.port) + " (" + device.name + ")";
  }

  void check_limits(const PortConfig& port, const Device& device) {
    if (port.descriptors != 0 &&
        (port.descriptors < device.least_descriptors || port.descriptors > device.most_descriptors)) {
      error(port.place,
            text_of(device) + " takes rings of " + std::to_string(device.least_descriptors) + " to " +
                std::to_string(device.most_descriptors) + " descriptors, " + std::to_string(port.descriptors) +
                " are asked for",
            "choose `descriptors` within these limits, or leave it out for what the driver prefers");
    }
    if (port.mtu > device.max_mtu) {
      error(port.place,
            text_of(device) + " has an MTU of at most " + std::to_string(device.max_mtu) + ", " +
                std::to_string(port.mtu) + " is asked for",
            "lower `mtu`, or leave it out for 1500");
    }
  }

  void add_port(const std::vector<PortConfig>& ports, size_t i, PortPlan& plan) {
    const PortConfig& port = ports[i];
    const Device* device = find(port.port, port.place);
    if (device == nullptr) return;
    // A sink sends nothing, but net_tap wants as many transmit queues as receive queues, and net_vhost receives nothing
    // without.
    const uint16_t tx_queues =
        config_.forward == Forward::sink ? std::min(port.queues, device->max_tx_queues) : port.width();
    if (port.queues > device->max_rx_queues || tx_queues > device->max_tx_queues) {
      error(
          port.place,
          text_of(*device) + " offers " + std::to_string(device->max_rx_queues) + " receive and " +
              std::to_string(device->max_tx_queues) + " transmit queues, " + std::to_string(port.queues) + " and " +
              std::to_string(tx_queues) + " are asked for",
          "ask for fewer `queues` (or less `spread`), or give the device more (net_null, net_ring, net_pcap: by their "
          "arguments)");
    }
    check_limits(port, *device);
    plan.ports.push_back({port.port, port.queues, tx_queues, port.descriptors, port.mtu, port.promiscuous});
    if (port.spread != 0) plan.ports.push_back({rings_of(port).port, port.spread, port.spread, 0, 0, false, true});
    const PortConfig& partner = ports[partner_of(i)];
    if (config_.forward == Forward::pair && port.mtu > partner.mtu && partner.mtu != 0) {
      plan.warnings.push_back(text_of(*device) + " has mtu " + std::to_string(port.mtu) + " and its partner, port " +
                              std::to_string(partner.port) + ", " + std::to_string(partner.mtu) +
                              ": what is longer is lost there");
    }
  }

  // Made before the plan (add_spread_rings); without it the plan is good for nothing but its errors.
  PortQueue rings_of(const PortConfig& port) const {
    for (const Device& device : devices_) {
      if (device.name == spread_device(port.port)) return {device.port, 0};
    }
    return {};
  }

  size_t partner_of(size_t i) const { return config_.forward == Forward::pair ? i ^ 1 : i; }

  Route route(const std::vector<PortConfig>& ports, size_t i, uint16_t queue) const {
    const uint16_t in = ports[i].spread != 0 ? rings_of(ports[i]).port : ports[i].port;
    Route route;
    route.in = {in, queue};
    route.sink = config_.forward == Forward::sink;
    route.out = {ports[partner_of(i)].port, queue};
    return route;
  }

  // The worker with the fewest queues, of the node when one of it has not its share yet.
  static size_t choose_worker(int node, std::span<const int> worker_nodes, const std::vector<size_t>& load,
                              size_t share) {
    size_t best = 0;
    const auto rank = [&](size_t worker) {
      const bool is_near = node == kNoNode || worker_nodes[worker] == node;
      return std::pair(!(is_near && load[worker] < share), load[worker]);
    };
    for (size_t worker = 1; worker < load.size(); worker++) {
      if (rank(worker) < rank(best)) best = worker;
    }
    return best;
  }

  // Ports of a known node before the others, which any worker may have.
  std::vector<size_t> order_by_node(const std::vector<PortConfig>& ports) {
    std::vector<size_t> order(ports.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t i) { return find(ports[i].port, ports[i].place)->numa_node != kNoNode; });
    return order;
  }

  void deal(const std::vector<PortConfig>& ports, std::span<const int> worker_nodes, PortPlan& plan) {
    plan.routes.resize(worker_nodes.size());
    plan.spreads.resize(worker_nodes.size());
    size_t total = 0;  // a hardware queue that is spread is work, too
    for (const PortConfig& port : ports) total += port.width() + size_t{port.spread != 0};
    const size_t share = (total + worker_nodes.size() - 1) / worker_nodes.size();
    std::vector<size_t> load(worker_nodes.size());
    for (const size_t i : order_by_node(ports)) {
      const Device& device = *find(ports[i].port, ports[i].place);
      const auto choose = [&](uint16_t queue) {
        const size_t worker = choose_worker(device.numa_node, worker_nodes, load, share);
        load[worker]++;
        if (device.numa_node != kNoNode && worker_nodes[worker] != device.numa_node) {
          plan.warnings.push_back(text_of(device) + " is on NUMA node " + std::to_string(device.numa_node) +
                                  ", and its queue " + std::to_string(queue) + " is polled by worker " +
                                  std::to_string(worker) + " on node " + std::to_string(worker_nodes[worker]) +
                                  ", which is slower: choose more lcores of its node (EAL's -l)");
        }
        return worker;
      };
      for (uint16_t queue = 0; queue < ports[i].width(); queue++) {
        plan.routes[choose(queue)].push_back(route(ports, i, queue));
      }
      if (ports[i].spread != 0) {
        plan.spreads[choose(0)].push_back({{ports[i].port, 0}, rings_of(ports[i]).port, ports[i].spread});
      }
    }
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
    plan.ports.push_back({device->port, 0, queue, 0, 0, false});
  }

  const Config& config_;
  const std::vector<Device>& devices_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::string spread_device(uint16_t port) {
  return "net_ring_spread" + std::to_string(port);
}

PortPlan plan_ports(const Config& config, const std::vector<Device>& devices, std::span<const int> worker_nodes,
                    Diagnostics& diagnostics) {
  return Planner(config, devices, diagnostics).plan(worker_nodes);
}

}  // namespace weir::dataplane
