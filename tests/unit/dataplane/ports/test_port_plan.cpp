#include <set>

#include "dataplane/ports/port_plan.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

std::vector<Device> devices(uint16_t n, uint16_t queues = 8) {
  std::vector<Device> all;
  for (uint16_t port = 0; port < n; port++) {
    Device& device = all.emplace_back();
    device.port = port;
    device.name = "dev" + std::to_string(port);
    device.max_rx_queues = device.max_tx_queues = queues;
    device.least_descriptors = 64;
    device.most_descriptors = 4096;
    device.max_mtu = 9000;
  }
  return all;
}

Config config_of(const std::string& text) {
  Diagnostics diagnostics;
  Config config = parse_config("f", text, diagnostics);
  REQUIRE(diagnostics.ok());
  return config;
}

PortPlan plan(const std::string& text, const std::vector<Device>& all, const std::vector<int>& worker_nodes) {
  Diagnostics diagnostics;
  PortPlan made = plan_ports(config_of(text), all, worker_nodes, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(diagnostics.ok());
  return made;
}

PortPlan plan(const std::string& text, const std::vector<Device>& all, uint32_t workers) {
  return plan(text, all, std::vector<int>(workers, 0));
}

bool same(PortQueue a, PortQueue b) {
  return a.port == b.port && a.queue == b.queue;
}

}  // namespace

TEST_CASE("pairs: a frame leaves by its partner's queue of the same number") {
  const PortPlan made = plan("ports: [{port: 0, queues: 2}, {port: 3, queues: 2}]", devices(4), 2);
  REQUIRE(made.ports.size() == 2);
  REQUIRE(made.routes.size() == 2);
  for (uint16_t worker = 0; worker < 2; worker++) {
    REQUIRE(made.routes[worker].size() == 2);  // dealt round-robin
    CHECK(same(made.routes[worker][0].in, {0, worker}));
    CHECK(same(made.routes[worker][0].out, {3, worker}));
    CHECK(same(made.routes[worker][1].in, {3, worker}));
    CHECK(same(made.routes[worker][1].out, {0, worker}));
  }
}

TEST_CASE("without `ports`, every port but the drop_port") {
  const PortPlan made = plan("drop_port: 1", devices(3), 1);
  REQUIRE(made.ports.size() == 3);
  CHECK(made.ports[2].port == 1);
  CHECK(made.ports[2].rx_queues == 0);
  CHECK(made.ports[2].tx_queues == 1);
  CHECK(same(made.routes[0][0].out, {2, 0}));
}

TEST_CASE("hairpin and sink") {
  const PortPlan hairpin = plan("forward: hairpin", devices(1), 1);
  CHECK(same(hairpin.routes[0][0].out, {0, 0}));
  CHECK_FALSE(hairpin.routes[0][0].sink);
  const PortPlan sink = plan("forward: sink", devices(1), 1);
  CHECK(sink.routes[0][0].sink);
  CHECK(sink.ports[0].tx_queues == 1);
}

TEST_CASE("a transmit queue has one worker, whatever the numbers") {
  for (uint16_t queues = 1; queues <= 5; queues++) {
    for (uint32_t workers = 1; workers <= 6; workers++) {
      for (const char* forward : {"pair", "hairpin"}) {
        const std::string q = std::to_string(queues);
        const PortPlan made =
            plan(std::string("forward: ") + forward + "\ndrop_port: 2\nports: [{port: 0, queues: " + q +
                     "}, {port: 1, queues: " + q + "}]",
                 devices(3), workers);
        std::set<std::pair<int, int>> received;
        std::set<std::tuple<int, int, uint32_t>> senders;
        std::set<std::pair<int, int>> used;
        for (uint32_t worker = 0; worker < workers; worker++) {
          for (const Route& route : made.routes[worker]) {
            CHECK(received.insert({route.in.port, route.in.queue}).second);
            CHECK(route.has_capture);
            for (const PortQueue& out : {route.out, route.capture}) {
              senders.insert({out.port, out.queue, worker});
              used.insert({out.port, out.queue});
            }
          }
        }
        CHECK(received.size() == 2u * queues);
        CHECK(senders.size() == used.size());
      }
    }
  }
}

TEST_CASE("what the ports cannot give is said with a way out") {
  struct Row {
    const char* text;
    uint16_t n_devices;
    uint32_t workers;
    const char* words;
  };
  const Row rows[] = {
      {"ports: [{port: 0}, {port: 7}]", 2, 1, "port 7 does not exist"},
      {"drop_port: 9", 2, 1, "port 9 does not exist"},
      {"", 3, 1, "even number of ports, here are 3"},
      {"", 0, 1, "no port to receive from"},
      {"drop_port: 0\nforward: sink", 1, 1, "no port to receive from"},
      {"forward: sink\nports: [{port: 0, queues: 9}]", 1, 1, "offers 8 receive"},
      {"forward: sink\nports: [{port: 0, descriptors: 32}]", 1, 1, "takes rings of 64 to 4096 descriptors, 32 are"},
      {"forward: sink\nports: [{port: 0, descriptors: 8192}]", 1, 1, "takes rings of 64 to 4096"},
      {"forward: sink\nports: [{port: 0, mtu: 9001}]", 1, 1, "has an MTU of at most 9000, 9001 is asked for"},
      {"forward: hairpin\nports: [{port: 0, spread: 9}]", 1, 1, "8 transmit queues, 1 and 9 are asked for"},
      {"drop_port: 1\nforward: sink\nports: [{port: 0, queues: 8}, {port: 2, queues: 8}]", 3, 9,
       "one for each of 9 workers"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Diagnostics diagnostics;
    plan_ports(config_of(row.text), devices(row.n_devices), std::vector<int>(row.workers, 0), diagnostics);
    REQUIRE(diagnostics.errors() == 1);
    CHECK_THAT(format(diagnostics), Catch::Matchers::ContainsSubstring(row.words));
    CHECK_THAT(format(diagnostics), Catch::Matchers::ContainsSubstring("hint: "));
  }
}

TEST_CASE(
    "whatever the numbers of ports, queues and workers: each queue once, and no worker with two more than another") {
  for (uint16_t ports = 1; ports <= 5; ports++) {
    for (uint16_t queues = 1; queues <= 4; queues++) {
      for (uint32_t workers = 1; workers <= 9; workers++) {
        std::string text = "forward: hairpin\nports: [";
        for (uint16_t port = 0; port < ports; port++) {
          text += "{port: " + std::to_string(port) + ", queues: " + std::to_string(queues) + "}, ";
        }
        const PortPlan made = plan(text + "]", devices(ports), workers);
        std::set<std::pair<int, int>> received;
        size_t least = SIZE_MAX, most = 0;
        for (const std::vector<Route>& routes : made.routes) {
          for (const Route& route : routes) CHECK(received.insert({route.in.port, route.in.queue}).second);
          least = std::min(least, routes.size());
          most = std::max(most, routes.size());
        }
        CHECK(received.size() == size_t{ports} * queues);
        CHECK(most - least <= 1);
        CHECK(made.warnings.empty());
      }
    }
  }
}

TEST_CASE("queues go to workers of their port's node, until these have their share") {
  std::vector<Device> two = devices(2);
  two[0].numa_node = 1;
  two[1].numa_node = 0;
  const std::string config = "ports: [{port: 0, queues: 2}, {port: 1, queues: 2}]";
  const PortPlan near = plan(config, two, std::vector<int>{0, 1, 0, 1});
  for (uint32_t worker = 0; worker < 4; worker++) {
    REQUIRE(near.routes[worker].size() == 1);
    CHECK(near.routes[worker][0].in.port == (worker % 2 == 1 ? 0 : 1));
  }
  CHECK(near.warnings.empty());

  two[1].numa_node = 1;  // four queues on node 1, of whose workers there is one: two are its share
  const PortPlan far = plan(config, two, std::vector<int>{0, 1});
  CHECK(far.routes[1].size() == 2);
  CHECK(far.routes[0].size() == 2);
  REQUIRE(far.warnings.size() == 2);
  CHECK_THAT(far.warnings[0], Catch::Matchers::ContainsSubstring("is on NUMA node 1"));
  CHECK_THAT(far.warnings[0], Catch::Matchers::ContainsSubstring("worker 0 on node 0"));

  two[0].numa_node = kNoNode;  // any worker may have it: the other port is dealt first
  const PortPlan any = plan(config, two, std::vector<int>{0, 1});
  CHECK(any.warnings.empty());
  for (const Route& route : any.routes[1]) CHECK(route.in.port == 1);
}

TEST_CASE("spread: one worker empties the port, every worker receives from its own software queue") {
  std::vector<Device> all = devices(3);
  all[2].name = spread_device(0);
  const PortPlan made = plan("forward: hairpin\nports: [{port: 0, spread: 2}]", all, 2);
  REQUIRE(made.ports.size() == 2);
  CHECK(made.ports[0].rx_queues == 1);
  CHECK(made.ports[0].tx_queues == 2);  // one for each worker
  CHECK(made.ports[1].port == 2);
  CHECK(made.ports[1].is_spread);
  size_t spreads = 0;
  for (uint16_t worker = 0; worker < 2; worker++) {
    REQUIRE(made.routes[worker].size() == 1);
    CHECK(same(made.routes[worker][0].in, {2, worker}));
    CHECK(same(made.routes[worker][0].out, {0, worker}));
    for (const Spread& spread : made.spreads[worker]) {
      CHECK(same(spread.in, {0, 0}));
      CHECK(spread.rings == 2);
      CHECK(spread.n == 2);
      spreads++;
    }
  }
  CHECK(spreads == 1);
}

TEST_CASE("a partner with a smaller MTU is warned of") {
  CHECK(plan("ports: [{port: 0, mtu: 9000}, {port: 1, mtu: 9000}]", devices(2), 1).warnings.empty());
  const PortPlan made = plan("ports: [{port: 0, mtu: 9000}, {port: 1, mtu: 1500}]", devices(2), 1);
  REQUIRE(made.warnings.size() == 1);
  CHECK_THAT(made.warnings[0], Catch::Matchers::ContainsSubstring("what is longer is lost"));
}
