#include <set>

#include "dataplane/port_plan.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

std::vector<Device> devices(uint16_t n, uint16_t queues = 8) {
  std::vector<Device> all;
  for (uint16_t port = 0; port < n; port++) all.push_back({port, "dev" + std::to_string(port), queues, queues});
  return all;
}

Config config_of(const std::string& text) {
  Diagnostics diagnostics;
  Config config = parse_config("f", text, diagnostics);
  REQUIRE(diagnostics.ok());
  return config;
}

PortPlan plan(const std::string& text, const std::vector<Device>& all, uint32_t workers) {
  Diagnostics diagnostics;
  PortPlan made = plan_ports(config_of(text), all, workers, diagnostics);
  INFO(format(diagnostics));
  REQUIRE(diagnostics.ok());
  return made;
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
  CHECK(sink.ports[0].tx_queues == 0);
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
      {"drop_port: 1\nforward: sink\nports: [{port: 0, queues: 8}, {port: 2, queues: 8}]", 3, 9,
       "one for each of 9 workers"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    Diagnostics diagnostics;
    plan_ports(config_of(row.text), devices(row.n_devices), row.workers, diagnostics);
    REQUIRE(diagnostics.errors() == 1);
    CHECK_THAT(format(diagnostics), Catch::Matchers::Contains(row.words));
    CHECK_THAT(format(diagnostics), Catch::Matchers::Contains("hint: "));
  }
}
