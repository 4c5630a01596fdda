// Each rule of `recommend`: it says something where its condition holds, and nothing beside it.
#include <algorithm>

#include "control/tell/answer/advice.h"
#include "control/tell/answer/economics.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

constexpr int64_t kNow = 1'800'000'000, kDay_s = 86400;

// What the rules look at, quiet: no rule says anything.
struct World {
  Policy policy = make_policy({
      make_list("drop", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2"}),
      make_list("watch", WEIR_DROP, kSource, {"10.0.1.1"}),
      make_list("allow", WEIR_PASS, kSource, {"10.0.2.1"}),
  });
  ListsAnswer lists;
  std::vector<FeedDetails> feeds;
  CompileReport report;
  OverlayReport overlay;
  uint64_t memory_limit = 512 << 20;
  bool knows_policy = true;

  World() {
    policy.lists[1].mode = WEIR_MONITOR;
    report.snapshot_bytes = 100 << 20;
    compare();
    lists.counted_since = kNow - 8 * kDay_s;
    lists.history_since = kNow - 9 * kDay_s;
    lists.packets = 1'000'000;
    lists.snapshot_bytes = 100 << 20;
    of("watch").counted.would_drop = 200'000;  // more than a few
    of("drop").counted.dropped_alone = of("drop").counted.dropped = 1000;
    for (ListEconomics& list : lists.lists) list.churn.known_since = lists.history_since;
  }
  void compare() {
    const ListsAnswer was = lists;
    lists = lists_of(policy.lists, overlap_of(policy.lists, kNow), {}, {});
    lists.counted_since = was.counted_since;
    lists.packets = was.packets;
    lists.history_since = was.history_since;
    lists.verdicts = verdicts_of(lists);
  }
  ListEconomics& of(const std::string& name) {
    return *std::find_if(lists.lists.begin(), lists.lists.end(), [&](const auto& list) { return list.name == name; });
  }
  RecommendAnswer advice() const {
    return advise({knows_policy ? &policy : nullptr, policy.lists, lists, feeds, report, overlay, memory_limit, kNow});
  }
  // What this rule says; the others are quiet unless `others`.
  std::vector<Advice> says(const std::string& rule) const {
    std::vector<Advice> said;
    for (Advice& one : advice().advice) {
      if (one.rule == rule) said.push_back(one);
    }
    return said;
  }
  std::string lacks(const std::string& rule) const {
    for (const NotJudged& one : advice().not_judged) {
      if (one.rule == rule) return one.reason;
    }
    return "";
  }
};

void add_shape(World& world, double fpr, uint64_t filter_bytes, double bits_per_key) {
  ShapeReport shape = {};
  shape.shape.family = 4;
  shape.shape.directions = kSource;
  shape.shape.layout = WEIR_LAYOUT_LINE8;
  shape.shape.filter.size_bytes = filter_bytes;
  shape.expected_fpr = fpr;
  shape.bits_per_key = bits_per_key;
  world.report.shapes.push_back(shape);
}

}  // namespace

TEST_CASE("a quiet policy gets no advice, and each rule has a name and a condition") {
  const RecommendAnswer answer = World().advice();
  for (const Advice& one : answer.advice) FAIL(one.rule + ": " + one.text);
  CHECK(answer.not_judged.empty());
  for (const AdviceRule& rule : advice_rules()) CHECK(std::string(rule.condition).size() > 10);
}

TEST_CASE("list_can_go, lists_are_one") {
  World world;
  world.policy.lists.push_back(make_list("copy", WEIR_DROP, kSource, {"10.0.0.1"}));
  world.compare();
  REQUIRE(world.says("list_can_go").size() == 1);
  CHECK(world.says("list_can_go")[0].subject == "copy");
  CHECK(world.says("list_can_go")[0].reason.find("drop holds") == 0);
  world.lists.verdicts = {{"one", "drop", "copy", "nearly"}};
  CHECK(world.says("list_can_go").empty());
  REQUIRE(world.says("lists_are_one").size() == 1);
  CHECK(world.says("lists_are_one")[0].text == "make one list of drop and copy, or take one of them out");
}

TEST_CASE("drops_nothing_alone") {
  World world;
  ListEconomics& list = world.of("drop");
  list.counted.dropped_alone = 0;
  list.cost.bytes_alone = 6 << 20;
  REQUIRE(world.says("drops_nothing_alone").size() == 1);
  CHECK(world.says("drops_nothing_alone")[0].policy == std::vector<std::string>{"- name: drop", "  mode: monitor"});
  list.cost.bytes_alone = 4 << 20;
  CHECK(world.says("drops_nothing_alone").empty());
  list.cost.bytes_alone = 6 << 20;
  list.counted.dropped_alone = 1;
  CHECK(world.says("drops_nothing_alone").empty());
  list.counted.dropped_alone = 0;
  list.churn.known_since = kNow - kDay_s;  // it was not there all the time
  CHECK(world.says("drops_nothing_alone").empty());
  list.churn.known_since = 0;
  world.lists.counted_since = kNow - 6 * kDay_s;
  CHECK(world.says("drops_nothing_alone").empty());
  CHECK(world.lacks("drops_nothing_alone") == "frames were counted for 6 days: it needs 7 days");
}

TEST_CASE("enforce_monitored") {
  World world;
  ListEconomics& list = world.of("watch");
  list.counted.would_drop = 100;
  list.counted.would_drop_alone = 25;
  REQUIRE(world.says("enforce_monitored").size() == 1);
  const Advice advice = world.says("enforce_monitored")[0];
  CHECK(advice.reason ==
        "it would have dropped 100 of 1,000,000 frames (0.01 %) in 8 days: 25 % of it dropped by no enforced list");
  CHECK(advice.policy == std::vector<std::string>{"- name: watch", "  mode: enforce"});
  list.counted.would_drop_alone = 0;
  CHECK(world.says("enforce_monitored")[0].reason.find("all of it dropped by enforced lists already") !=
        std::string::npos);
  list.counted.would_drop = 10'001;
  CHECK(world.says("enforce_monitored").empty());
  list.counted.would_drop = 0;
  CHECK(world.says("enforce_monitored").size() == 1);
  list.churn.known_since = kNow - 60;
  CHECK(world.says("enforce_monitored").empty());
  list.churn.known_since = 0;
  world.lists.packets = 99'999;
  CHECK(world.says("enforce_monitored").empty());
  CHECK(world.lacks("enforce_monitored") == "99,999 frames were counted: it needs 100,000");
  world.lists.packets = 1'000'000;
  world.lists.counted_since = kNow - 3600;
  CHECK(world.lacks("enforce_monitored").find("frames were counted for") == 0);
  world.lists.counted_since = 0;
  CHECK(world.lacks("enforce_monitored") == "no target was reached: nothing is counted");
  list.mode = "enforce";
  CHECK(world.lacks("enforce_monitored").empty());  // nothing to judge
}

TEST_CASE("pass_shadows") {
  World world;
  world.policy.lists[2] = make_list("allow", WEIR_PASS, kSource, {"10.0.0.1"});
  world.compare();
  REQUIRE(world.says("pass_shadows").size() == 1);
  CHECK(world.says("pass_shadows")[0].subject == "drop");
  CHECK(world.says("pass_shadows")[0].reason == "1 of 2 entries lie wholly in allow, which wins");
  world.policy.lists[2] = make_list("allow", WEIR_PASS, kSource, {"10.0.0.0/24"});
  world.compare();
  CHECK(world.says("pass_shadows")[0].text.find("take drop out") == 0);
  world.policy.lists[2] = make_list("allow", WEIR_PASS, kDestination, {"10.0.0.0/24"});
  world.compare();
  CHECK(world.says("pass_shadows").empty());
}

TEST_CASE("memory_bound") {
  World world;
  add_shape(world, 0.001, 120 << 20, 12);
  world.report.snapshot_bytes = 461 << 20;
  world.policy.layout = WEIR_LAYOUT_LINE8;
  REQUIRE(world.says("memory_bound").size() == 1);
  CHECK(world.says("memory_bound")[0].policy[1] == "  layout: ribbon");
  CHECK(world.says("memory_bound")[0].reason.find("save about 30.0 MiB") != std::string::npos);
  world.policy.layout = std::nullopt;
  CHECK(world.says("memory_bound")[0].policy[1] == "  memory: 1024MiB");
  world.policy.layout = WEIR_LAYOUT_RIBBON;
  CHECK(world.says("memory_bound")[0].policy[1] == "  memory: 1024MiB");
  world.report.snapshot_bytes = 460 << 20;
  CHECK(world.says("memory_bound").empty());
  world.knows_policy = false;
  CHECK_FALSE(world.lacks("memory_bound").empty());
}

TEST_CASE("false_positive_rate") {
  World world;
  world.of("watch").counted.would_drop = 0;
  world.of("drop").counted.dropped = 1000;  // 0.1 % of frames
  add_shape(world, 0.02, 1 << 20, 10);
  world.policy.false_positive_rate = 0.02;
  REQUIRE(world.says("false_positive_rate").size() == 1);
  CHECK(world.says("false_positive_rate")[0].policy[1] == "  false_positive_rate: 0.005");
  world.of("drop").counted.dropped = 30'000;  // more than what is looked up in vain
  CHECK(world.says("false_positive_rate").empty());
  world.of("drop").counted.dropped = 1000;
  world.report.shapes[0].expected_fpr = 0.009;
  CHECK(world.says("false_positive_rate").empty());
  // No memory, and false hits that do not matter.
  world.report.snapshot_bytes = 500 << 20;
  world.report.shapes[0].expected_fpr = 0.001;
  world.policy.false_positive_rate = 0.001;
  CHECK(world.says("false_positive_rate").empty());
  world.of("drop").counted.dropped = 30'000;
  REQUIRE(world.says("false_positive_rate").size() == 1);
  CHECK(world.says("false_positive_rate")[0].policy[1] == "  false_positive_rate: 0.004");
  world.lists.packets = 1000;
  CHECK(world.says("false_positive_rate").empty());
  CHECK_FALSE(world.lacks("false_positive_rate").empty());
}

TEST_CASE("ipv6_aggregate") {
  const auto world_of = [](uint64_t hosts, uint64_t of_network) {
    World world;
    Edit drop = edit(world.policy.lists[0]);
    for (uint64_t i = 0; i < hosts; i++) {
      const Ipv6 address = (Ipv6{0x20010db800000000 + i / of_network} << 64) + i;
      drop->v6.push_back({address, address, 1, 0, kSource, 0});
    }
    return world;
  };
  World world = world_of(256, 2);
  REQUIRE(world.says("ipv6_aggregate").size() == 1);
  CHECK(world.says("ipv6_aggregate")[0].reason == "its 256 IPv6 hosts lie in 128 /64 networks");
  world.policy.lists[0].ipv6_aggregate = 64;
  CHECK(world.says("ipv6_aggregate").empty());
  CHECK(world_of(255, 2).says("ipv6_aggregate").empty());
  CHECK(world_of(300, 1).says("ipv6_aggregate").empty());
}

TEST_CASE("never_expire") {
  World world;
  const auto add = [&](int count, uint32_t expires) {
    Edit drop = edit(world.policy.lists[0]);
    for (int i = 0; i < count; i++) {
      const auto address = static_cast<Ipv4>(0x0b000000 + drop->v4.size());
      drop->v4.push_back({address, address, 0, 0, kSource, kJournalSource, expires});
    }
  };
  add(99, kNever);
  world.policy.lists[0].dynamic = Dynamic{};
  CHECK(world.says("never_expire").empty());
  add(5, 1'900'000'000);
  CHECK(world.says("never_expire").empty());
  add(1, kNever);
  REQUIRE(world.says("never_expire").size() == 1);
  CHECK(world.says("never_expire")[0].reason == "100 entries that were added never end; max_ttl is not set");
  world.policy.lists[0].dynamic.reset();
  CHECK(world.says("never_expire").empty());
}

TEST_CASE("guard_off") {
  World world;
  List& list = world.policy.lists[0];
  list.file = list.feed.path = "feeds/drop.txt";
  CHECK(world.says("guard_off").empty());
  list.feed_state.options.guard.max_shrink = 0.99;
  CHECK(world.says("guard_off").empty());
  list.feed_state.options.guard.max_shrink = 1;
  list.feed_state.options.guard.min_entries = 0;
  REQUIRE(world.says("guard_off").size() == 1);
  CHECK(world.says("guard_off")[0].policy[1] == "  guard: {min_entries: 1, max_shrink: 50%}");
  list.feed_state.options.guard = {};
  list.feed_state.options.guard.max_growth = 1000;
  CHECK(world.says("guard_off")[0].policy[1] == "  guard: {max_growth: 10x}");
}

TEST_CASE("feed_is_old") {
  World world;
  List& list = world.policy.lists[0];
  list.file = list.feed.path = "feeds/drop.txt";
  CHECK(world.says("feed_is_old").empty());  // not known
  list.feed_state.file.modified_ns = (kNow - 31 * kDay_s) * 1'000'000'000;
  REQUIRE(world.says("feed_is_old").size() == 1);
  CHECK(world.says("feed_is_old")[0].reason == "it did not change for 31 days");
  CHECK(world.says("feed_is_old")[0].command == "controlctl feeds");
  world.feeds.emplace_back();
  world.feeds[0].list = "drop";
  world.feeds[0].fetch.emplace();
  world.feeds[0].fetch->changed_at = kNow - 40 * kDay_s;
  CHECK(world.says("feed_is_old")[0].command == "controlctl feeds --fetch drop");
  world.feeds[0].fetch->changed_at = kNow - 29 * kDay_s;
  CHECK(world.says("feed_is_old").empty());
  world.feeds.clear();
  list.feed_state.file.modified_ns = (kNow - 29 * kDay_s) * 1'000'000'000;
  CHECK(world.says("feed_is_old").empty());
}

TEST_CASE("overlay_is_large") {
  World world;
  CHECK(world.says("overlay_is_large").empty());
  world.overlay.of_base = 10'000;
  world.overlay.keys = 32'767;
  CHECK(world.says("overlay_is_large").empty());
  world.overlay.keys = 32'768;
  REQUIRE(world.says("overlay_is_large").size() == 1);
  CHECK(world.says("overlay_is_large")[0].command == "controlctl reload");
}

}  // namespace weir::control
