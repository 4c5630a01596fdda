// The file of a node of a fleet, and what it says on top of the fleet's policy.
#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

namespace weir::control {
namespace {

constexpr const char* kFleet = "fleet: {etcd: [\"https://192.0.2.1:2379/\"], name: edge, node: n1, group: canary}\n";
constexpr const char* kPolicy =
    "version: 1\npolicy: {default: drop, own: [192.0.2.0/28]}\nfilter: {memory: 64MiB, false_positive_rate: 0.01}\n"
    "history: {keep: 1d}\ncapture: {one_in: 7}\nplan: {samples: 160}\nmetrics: {listen: 127.0.0.1:9000}\n"
    "fetch: {proxy: \"http://192.0.2.3:8080\"}\nlists:\n  - {name: a, action: drop, entries: [203.0.113.7]}\n";

std::optional<Policy> read_both(const Folder& folder, const std::string& node, Diagnostics& diagnostics) {
  FeedHistory history;
  history.node_file = folder.write("node.yaml", node);
  return read_policy(folder.write("weir.yaml", kPolicy), diagnostics, 1000, history);
}

}  // namespace

TEST_CASE("what the file of a node leaves out is the fleet's") {
  const Folder folder;
  Diagnostics diagnostics;
  const auto policy = read_both(folder, std::string("version: 1\ntargets: []\n") + kFleet, diagnostics);
  REQUIRE(policy);
  CHECK(policy->default_action == WEIR_DROP);
  CHECK(policy->memory_bytes == uint64_t{64} << 20);
  CHECK(policy->false_positive_rate == 0.01);
  CHECK(policy->history.keep_s == 86400);
  REQUIRE(policy->capture);
  CHECK(policy->capture->one_in == 7);
  CHECK(policy->plan.samples == 160);
  REQUIRE(policy->metrics.listen);
  CHECK(policy->metrics.listen->port == 9000);
  CHECK(policy->fetch.proxy == "http://192.0.2.3:8080");
  CHECK(policy->targets.empty());
  REQUIRE(policy->fleet);
  CHECK(policy->fleet->endpoints == std::vector<std::string>{"https://192.0.2.1:2379"});
  CHECK(policy->fleet->group == "canary");
  REQUIRE(policy->lists.size() == 1);
  CHECK(policy->lists[0].name == "a");
}

TEST_CASE("what it says holds on this node") {
  const Folder folder;
  Diagnostics diagnostics;
  const auto policy =
      read_both(folder,
                std::string("version: 1\nstate_dir: /s\npolicy: {own: [198.51.100.1]}\nfilter: {memory: 8MiB}\n"
                            "targets: [{dataplane: /d}]\nhistory: {keep: 2d}\nmetrics: {listen: off}\n"
                            "capture: {one_in: 9}\nplan: {samples: 320}\nfetch: {proxy: \"http://192.0.2.4:8080\"}\n") +
                    kFleet,
                diagnostics);
  REQUIRE(policy);
  CHECK(policy->state_dir == "/s");
  CHECK(policy->memory_bytes == uint64_t{8} << 20);
  CHECK(policy->false_positive_rate == 0.01);
  CHECK(policy->default_action == WEIR_DROP);
  REQUIRE(policy->targets.size() == 1);
  CHECK(policy->targets[0].name == "/d");
  CHECK(policy->history.keep_s == 2 * 86400);
  REQUIRE(policy->capture);
  CHECK(policy->capture->one_in == 9);
  CHECK(policy->plan.samples == 320);
  CHECK_FALSE(policy->metrics.listen);
  CHECK(policy->fetch.proxy == "http://192.0.2.4:8080");
  REQUIRE(policy->lists.size() == 1);
  REQUIRE(policy->lists[0].own != nullptr);  // the fleet's own addresses, and this node's
  const Own& own = *policy->lists[0].own;
  REQUIRE(own.entries->v4.size() == 2);
  CHECK(own.file_of(own.entries->v4[0].source) == folder / "weir.yaml");
  CHECK(own.entries->v4[1].first == parse_ipv4("198.51.100.1"));
  CHECK(own.file_of(own.entries->v4[1].source) == folder / "node.yaml");
}

TEST_CASE("a node has no lists of its own, and its errors name its file") {
  const Folder folder;
  Diagnostics diagnostics;
  CHECK_FALSE(
      read_both(folder, std::string("version: 1\n") + kFleet + "lists: [{name: b, action: drop}]\n", diagnostics));
  CHECK(format(diagnostics).find("node.yaml:3:8: error: a node of a fleet has no lists of its own") !=
        std::string::npos);
}

TEST_CASE("a fleet needs its name and where etcd is") {
  const std::pair<const char*, const char*> rows[] = {
      {"{name: edge}", "etcd"},
      {"{etcd: [], name: edge}", "names no endpoint"},
      {"{etcd: [\"192.0.2.1:2379\"], name: edge}", "is no endpoint"},
      {"{etcd: [\"http://a/b\"], name: edge}", "is no endpoint"},
      {"{etcd: [\"http://a:1\"]}", "name"},
      {"{etcd: [\"http://a:1\"], name: a/b}", "is no name"},
      {"{etcd: [\"http://a:1\"], name: edge, group: \"\"}", "is no name"},
      {"{etcd: [\"http://a:1\"], name: edge, user: x}", "belong together"},
      {"{etcd: [\"http://a:1\"], name: edge, tls: {ca_file: \"\"}}", "is empty"},
      {"{etcd: [\"http://a:1\"], name: edge, share: {lists: [\"a b\"]}}", "is no name of a list"},
      {"{etcd: [\"http://a:1\"], name: edge, colour: red}", "colour"},
  };
  for (const auto& [text, wanted] : rows) {
    Diagnostics diagnostics;
    CHECK_FALSE(parse_policy("a.yaml", std::string("version: 1\nfleet: ") + text + "\n", diagnostics));
    INFO(format(diagnostics));
    CHECK(format(diagnostics).find(wanted) != std::string::npos);
  }
}

}  // namespace weir::control
