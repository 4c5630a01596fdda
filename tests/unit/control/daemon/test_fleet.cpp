// A node of a fleet: controld in the test's process, its follower in a process of its own, and a fake etcd.
#include <atomic>
#include <thread>

#include "control/daemon/fleet.h"
#include "control/sources/fleet/desk.h"
#include "control/sources/fleet/follower.h"
#include "tests/unit/control/daemon/started.h"
#include "tests/unit/fake_etcd.h"
#include "tests/unit/own_clocks.h"

namespace weir::control {
namespace {

using Catch::Matchers::ContainsSubstring;

const fleet::Names kEdge("edge");

std::string fleet_policy(const std::string& entry) {
  return "version: 1\nlists:\n  - {name: l1, action: drop, entries: [" + entry +
         "]}\n  - {name: jail, action: drop, dynamic: true}\n";
}

// Two members have one store: the node speaks to the first one, the operator to the second.
struct Fleeted {
  Fleeted() {
    Result<std::unique_ptr<confine::Helpers>> started = confine::Helpers::start({&fleet::kFollowJob});
    REQUIRE(started);
    helpers = std::move(*started);
    folder.write("weir.yaml", "version: 1\ntargets: []\nfleet: {etcd: [\"" + etcd.urls()[0] +
                                  "\"], name: edge, node: n1, group: rest, share: {lists: [jail]}}\n");
    begin();
  }
  void begin() {
    Daemon::Options options = options_for(folder, {});
    options.added = [this](const Change& change, const std::string& list) {
      if (node != nullptr) node->added_here(change, list);
    };
    options.went_back = [this] {
      if (node != nullptr) node->went_back();
    };
    daemon = std::make_unique<Started>(options);
    INFO(daemon->error);
    REQUIRE(daemon->daemon);
    node = std::make_unique<FleetNode>(daemon->loop, *daemon->daemon, *helpers);
  }
  void end() {
    node.reset();
    daemon.reset();
  }
  ~Fleeted() { end(); }

  static etcd::Access access_of(const std::string& url) {
    etcd::Access access;
    access.endpoints = {url};
    access.timeout_ms = 20'000;
    return access;
  }
  uint64_t push(const std::string& policy) {
    fleet::Push push;
    push.policy = "weir.yaml";
    push.files = {{"weir.yaml", policy}};
    const Result<fleet::Pushed> pushed = desk.push(push);
    REQUIRE(pushed);
    return pushed->revision.number;
  }
  void cut_off(bool is_off) {
    etcd.set({{"drops", is_off}}, 0);
    if (is_off) etcd.cut(0);
  }
  const FleetStanding& standing() { return *(*daemon)->fleet_standing(); }
  bool is_dropped(const char* key) {
    return daemon->ask({{"command", "explain"}, {"key", key}}).at("as_source").at("action") == "drop";
  }
  template <class Test>
  bool until(Test test) {
    return daemon->until(test);
  }
  bool until_enforced(uint64_t revision) {
    return until([&] { return standing().revision == revision && standing().state == "enforcing"; });
  }
  // As the fleet has it; empty: there is none.
  std::optional<fleet::Report> report() {
    const Result<std::vector<fleet::Node>> nodes = desk.nodes();
    if (!nodes || nodes->size() != 1) return std::nullopt;
    return nodes->front().report;
  }

  const Folder folder;
  FakeEtcd etcd{2};
  fleet::Desk desk{access_of(etcd.urls()[1]), "edge", "ops"};
  std::unique_ptr<confine::Helpers> helpers;
  std::unique_ptr<Started> daemon;
  std::unique_ptr<FleetNode> node;
};

}  // namespace

TEST_CASE("a node enforces what is pushed to its group, and reports it") {
  Fleeted fleeted;
  REQUIRE(fleeted.until([&] { return fleeted.report().has_value(); }));
  CHECK(fleeted.report()->state == "waiting");
  // Its lease is a key of its own, which may come after the report.
  REQUIRE(fleeted.until([&] { return fleeted.desk.nodes()->front().is_alive; }));
  const uint64_t revision = fleeted.push(fleet_policy("203.0.113.7"));
  REQUIRE(fleeted.until_enforced(revision));
  CHECK(fleeted.is_dropped("203.0.113.7"));
  REQUIRE(fleeted.until([&] { return fleeted.report()->revision == revision; }));
  const std::optional<fleet::Report> report = fleeted.report();
  CHECK(report->node == "n1");
  CHECK(report->group == "rest");
  CHECK(report->turn == 1);
  CHECK(report->wanted == revision);
  CHECK(report->enforced_at > 0);

  // Of another group it takes nothing.
  const Result<fleet::Head> moved = fleeted.desk.change("of another group", [](fleet::Head& head) {
    fleet::move(head, "canary", 9);
    return Result<void>();
  });
  REQUIRE(moved);
  REQUIRE(fleeted.until([&] { return fleeted.standing().turn == moved->turn; }));
  CHECK(fleeted.standing().wanted == revision);
}

TEST_CASE("a node refuses a revision that is no policy, keeps what it has, and takes the next one") {
  Fleeted fleeted;
  const uint64_t first = fleeted.push(fleet_policy("203.0.113.7"));
  REQUIRE(fleeted.until_enforced(first));
  const uint64_t bad = fleeted.push("version: 1\nlists: nonsense\n");
  REQUIRE(fleeted.until([&] { return fleeted.standing().state == "refused"; }));
  CHECK(fleeted.standing().revision == first);
  CHECK(fleeted.standing().wanted == bad);
  CHECK_THAT(fleeted.standing().error, ContainsSubstring("weir.yaml:2:"));
  CHECK(fleeted.is_dropped("203.0.113.7"));
  REQUIRE(fleeted.until([&] { return fleeted.report()->state == "refused"; }));
  const uint64_t third = fleeted.push(fleet_policy("203.0.113.9"));
  REQUIRE(fleeted.until_enforced(third));
  CHECK(fleeted.standing().error.empty());
  CHECK(fleeted.is_dropped("203.0.113.9"));
}

TEST_CASE("a node that is cut off from etcd says so, keeps what it has over a restart, and catches up") {
  Fleeted fleeted;
  const uint64_t first = fleeted.push(fleet_policy("203.0.113.7"));
  REQUIRE(fleeted.until_enforced(first));
  CHECK(fleeted.standing().etcd_error.empty());
  fleeted.cut_off(true);
  REQUIRE(fleeted.until([&] { return !fleeted.standing().etcd_error.empty(); }));
  CHECK_THAT(fleeted.standing().etcd_error, ContainsSubstring(fleeted.etcd.urls()[0]));
  const uint64_t second = fleeted.push(fleet_policy("203.0.113.9"));
  CHECK(fleeted.is_dropped("203.0.113.7"));
  fleeted.end();
  fleeted.begin();
  CHECK(fleeted.standing().revision == first);
  CHECK(fleeted.is_dropped("203.0.113.7"));
  fleeted.cut_off(false);
  REQUIRE(fleeted.until_enforced(second));
  CHECK(fleeted.is_dropped("203.0.113.9"));
  CHECK(fleeted.standing().etcd_error.empty());
}

TEST_CASE("a node follows no earlier turn of the head, and a push mends that") {
  Fleeted fleeted;
  const uint64_t first = fleeted.push(fleet_policy("203.0.113.7"));
  const std::string old_head = fleet::text_of(fleeted.desk.head()->head);
  const uint64_t second = fleeted.push(fleet_policy("203.0.113.9"));
  REQUIRE(fleeted.until_enforced(second));
  REQUIRE(fleeted.until([&] { return fleeted.report()->turn == 2; }));
  REQUIRE(fleeted.desk.client().put(kEdge.head(), old_head));
  REQUIRE(fleeted.until([&] { return !fleeted.standing().etcd_error.empty(); }));
  CHECK_THAT(fleeted.standing().etcd_error, ContainsSubstring("restored from an older backup"));
  CHECK(fleeted.standing().revision == second);
  CHECK(fleeted.standing().turn == 2);
  const uint64_t third = fleeted.push(fleet_policy("203.0.113.11"));
  CHECK(third > first);
  REQUIRE(fleeted.until_enforced(third));
  CHECK(fleeted.standing().turn == 3);
  CHECK(fleeted.standing().etcd_error.empty());
}

TEST_CASE("a node has the entries of its fleet until they end, and shares its own") {
  Fleeted fleeted;
  REQUIRE(fleeted.until_enforced(fleeted.push(fleet_policy("203.0.113.7"))));
  REQUIRE(fleeted.desk.add({{"jail", "198.51.100.1"}}, 600, "seen"));
  REQUIRE(fleeted.desk.add({{"jail", "198.51.100.2"}}, 0, ""));
  REQUIRE(fleeted.until([&] { return fleeted.standing().entries == 2; }));
  CHECK(fleeted.is_dropped("198.51.100.1"));
  fleeted.etcd.pass(600);
  REQUIRE(fleeted.until([&] { return fleeted.standing().entries == 1; }));
  CHECK_FALSE(fleeted.is_dropped("198.51.100.1"));
  CHECK(fleeted.is_dropped("198.51.100.2"));

  REQUIRE(fleeted.daemon->ask({{"command", "add"}, {"name", "jail"}, {"entries", {"198.51.100.3"}}}).at("ok"));
  REQUIRE(fleeted.until([&] { return fleeted.desk.entries("jail")->size() == 2; }));
  const fleet::Desk::Entry shared = fleeted.desk.entries("jail")->back();
  CHECK(shared.text == "198.51.100.3");
  CHECK(shared.added.node == "n1");
  CHECK(shared.added.ttl_s == 3600);
  CHECK(shared.lease != 0);
}

TEST_CASE("a node tries again to have a revision whose bytes are not there yet") {
  Fleeted fleeted;
  etcd::Client& client = fleeted.desk.client();
  const uint64_t first = fleeted.push(fleet_policy("203.0.113.7"));
  REQUIRE(fleeted.until_enforced(first));
  fleeted.cut_off(true);
  const uint64_t second = fleeted.push(fleet_policy("203.0.113.9"));
  const std::string list = kEdge.blob(fleeted.desk.revision(second)->files.at(0).digest);
  const std::string text = client.get(list)->pairs.at(0).value;
  REQUIRE(client.commit({{}, {{etcd::Step::Kind::erase, list, ""}}, {}}));
  fleeted.cut_off(false);
  REQUIRE(fleeted.until([&] { return !fleeted.standing().error.empty(); }));
  CHECK(fleeted.standing().state == "taking");
  CHECK(fleeted.standing().error == "weir.yaml: etcd does not have it");
  CHECK(fleeted.is_dropped("203.0.113.7"));
  REQUIRE(client.put(list, text));
  const OwnClocks clocks;
  clocks.pass(std::chrono::seconds(5));
  REQUIRE(fleeted.until([&] {
    clocks.pass(std::chrono::milliseconds(1));  // for what is told soon
    return fleeted.standing().revision == second;
  }));
  CHECK(fleeted.is_dropped("203.0.113.9"));
}

TEST_CASE("a node tries again to enforce a revision that it could not enforce for a while") {
  Fleeted fleeted;
  const uint64_t first = fleeted.push(fleet_policy("203.0.113.7"));
  REQUIRE(fleeted.until_enforced(first));
  REQUIRE(fleeted.daemon->ask({{"command", "reload"}, {"confirm", 600}}).at("ok"));
  const uint64_t second = fleeted.push(fleet_policy("203.0.113.9"));
  REQUIRE(fleeted.until([&] { return !fleeted.standing().error.empty(); }));
  CHECK(fleeted.standing().state == "taking");
  CHECK_THAT(fleeted.standing().error, ContainsSubstring("controlctl confirm"));
  REQUIRE(fleeted.daemon->ask({{"command", "confirm"}}).at("ok"));
  const OwnClocks clocks;
  clocks.pass(std::chrono::seconds(5));
  REQUIRE(fleeted.until([&] {
    clocks.pass(std::chrono::milliseconds(1));  // for what is told soon
    return fleeted.standing().revision == second;
  }));
  CHECK(fleeted.is_dropped("203.0.113.9"));
}

TEST_CASE("a node says what a staged revision would do, and does not enforce it") {
  Fleeted fleeted;
  const uint64_t first = fleeted.push(fleet_policy("203.0.113.7"));
  REQUIRE(fleeted.until_enforced(first));
  fleet::Push staged;
  staged.policy = "weir.yaml";
  staged.files = {{"weir.yaml", fleet_policy("203.0.113.9, 203.0.113.10")}};
  staged.is_staged = true;
  const Result<fleet::Pushed> pushed = fleeted.desk.push(staged);
  REQUIRE(pushed);
  Result<std::vector<fleet::Told>> told = Error{"it has not ended"};
  std::atomic<bool> is_over = false;
  std::thread asks([&] {
    fleet::Desk other(Fleeted::access_of(fleeted.etcd.urls()[1]), "edge", "ops");
    told = other.plan(pushed->revision.number, 600);
    is_over = true;
  });
  const bool has_ended = fleeted.until([&] { return is_over.load(); });
  asks.join();
  REQUIRE(has_ended);
  REQUIRE(told);
  REQUIRE(told->size() == 1);
  CHECK(told->front().node == "n1");
  CHECK(told->front().error.empty());
  CHECK(told->front().entries == 2);
  CHECK_FALSE(told->front().why_no_radius.empty());
  CHECK(fleeted.standing().revision == first);
  CHECK_FALSE(fleeted.is_dropped("203.0.113.9"));
}

}  // namespace weir::control
