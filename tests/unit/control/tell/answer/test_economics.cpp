// What lists are worth: costs from the snapshot, churn from the history, and the verdicts.
#include <algorithm>

#include "control/tell/answer/economics.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

using Texts = std::vector<std::string>;

constexpr int64_t kADay_s = 86400;

const ListCost& cost_of(const SnapshotCosts& costs, const std::string& name) {
  const auto found =
      std::find_if(costs.lists.begin(), costs.lists.end(), [&](const auto& list) { return list.first == name; });
  REQUIRE(found != costs.lists.end());
  return found->second;
}

ListsAnswer answer_of(const Policy& policy, const ListCounters& counted = {}, uint64_t packets = 0) {
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  ListsAnswer answer = lists_of(policy.lists, overlap_of(policy.lists, 0), costs_of(snapshot.view()), counted);
  answer.packets = packets;
  return answer;
}

Texts verdicts_in(const ListsAnswer& answer) {
  Texts texts;
  for (const ListVerdict& verdict : verdicts_of(answer)) {
    texts.push_back(verdict.kind + " " + verdict.list + (verdict.other.empty() ? "" : " " + verdict.other));
  }
  return texts;
}

HistoryRow history_row(int64_t at, std::vector<ListChange> changes) {
  HistoryRow row;
  row.at = at;
  row.changes = std::move(changes);
  return row;
}

}  // namespace

TEST_CASE("keys are shared by the lists in their rules, and key types that only one list needs are its own") {
  const Policy policy = make_policy({
      make_list("hosts", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2", "10.0.0.3"}),
      make_list("more", WEIR_DROP, kEither, {"10.0.0.3", "10.0.0.4"}),
      make_list("ports", WEIR_DROP, kEither, {"10.0.0.9:443"}),
      make_list("v6", WEIR_DROP, kDestination, {"2001:db8::/32", "2001:db8:1::/48"}),
      make_list("empty", WEIR_DROP, kSource, {}),
  });
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const SnapshotCosts costs = costs_of(snapshot.view());
  CHECK(costs.snapshot_bytes == snapshot.header().total_bytes);
  CHECK(cost_of(costs, "hosts").keys == 3);
  CHECK(cost_of(costs, "hosts").keys_alone == 2);
  CHECK(cost_of(costs, "more").keys == 2);
  CHECK(cost_of(costs, "more").keys_alone == 1);
  CHECK(cost_of(costs, "hosts").key_types.empty());
  CHECK(cost_of(costs, "ports").key_types == Texts{"v4 addr/32 + port"});
  CHECK(cost_of(costs, "ports").probes == 2);
  CHECK(cost_of(costs, "v6").keys == cost_of(costs, "v6").keys_alone);
  CHECK(cost_of(costs, "v6").probes == cost_of(costs, "v6").key_types.size());
  CHECK(cost_of(costs, "empty").keys == 0);
  // 2.5 of 4 keys of v4 addr/32, and 1.5.
  const double of_hosts = static_cast<double>(cost_of(costs, "hosts").bytes);
  CHECK(of_hosts / static_cast<double>(cost_of(costs, "more").bytes) == Approx(2.5 / 1.5).epsilon(0.01));
  uint64_t sum = 0, shapes = 0;
  for (const auto& [name, cost] : costs.lists) sum += cost.bytes;
  for (uint32_t s = 0; s < snapshot.header().n_shapes; s++) {
    const weir_shape& shape = snapshot.header().shapes[s];
    shapes += shape.filter.size_bytes + shape.exact.size_bytes + shape.chunks.size_bytes;
  }
  CHECK(sum <= shapes);
  CHECK(sum + costs.lists.size() >= shapes);
}

TEST_CASE("conditions, networks and flows are charged to their lists") {
  Policy policy = make_policy({
      make_list("networks", WEIR_DROP, kSource, {"10.0.0.0/24", "12.0.0.0/8"}),
      make_list("ending", WEIR_DROP, kSource, {"10.0.0.0/24", "14.0.0.7"}),
  });
  {
    Edit ending = edit(policy.lists[1]);
    for (Entry<Ipv4>& entry : ending->v4) entry.expires = 1'900'000'000;
  }
  Flow flow;
  flow.family = 4;
  flow.dst = AddressRange{0x0d000001, 0x0d000001};
  flow.protocol = 6;
  edit(policy.lists[0])->flows.push_back(flow);
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const SnapshotCosts costs = costs_of(snapshot.view());
  CHECK(cost_of(costs, "networks").keys == 1 + 65536 + 1);  // /24s of a bitmap, and the flow
  CHECK(cost_of(costs, "ending").keys == 2);
  CHECK(cost_of(costs, "ending").keys_alone == 1);
  CHECK(cost_of(costs, "ending").key_types.empty());  // the flow is looked up by its destination there
}

TEST_CASE("lists that can go all at once, each held by one that stays") {
  const auto policy = [](std::vector<List> lists) { return make_policy(std::move(lists)); };
  const List some = make_list("some", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2"});
  const List same = make_list("same", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2"});
  const List all = make_list("all", WEIR_DROP, kSource, {"10.0.0.0/24"});
  const List other_side = make_list("other-side", WEIR_DROP, kDestination, {"10.0.0.0/24"});
  const List first = make_list("first", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.3"});
  const List second = make_list("second", WEIR_DROP, kSource, {"10.0.0.2", "10.0.0.4"});
  const List exempt = make_list("exempt", WEIR_PASS, kSource, {"10.0.0.0/24"});
  List watched = make_list("watched", WEIR_DROP, kSource, {"10.0.0.0/24"});
  watched.mode = WEIR_MONITOR;

  CHECK(verdicts_in(answer_of(policy({some, all}))) == Texts{"can_go some all"});
  CHECK(verdicts_in(answer_of(policy({some, same}))) == Texts{"can_go same some"});  // not both
  CHECK(verdicts_in(answer_of(policy({some, same, all}))) == Texts{"can_go some all", "can_go same all"});
  CHECK(verdicts_in(answer_of(policy({some, other_side}))).empty());
  CHECK(verdicts_in(answer_of(policy({some, exempt}))).empty());
  CHECK(verdicts_in(answer_of(policy({some, watched}))).empty());
  CHECK(verdicts_in(answer_of(policy({exempt, some, all}))) == Texts{"can_go some all"});
  CHECK(verdicts_in(answer_of(policy({watched, all}))) == Texts{"can_go watched all"});
  CHECK(verdicts_in(answer_of(policy({some, first, second}))) == Texts{"can_go some"});
  CHECK(verdicts_in(answer_of(policy({some, make_list("empty", WEIR_DROP, kSource, {})}))).empty());
}

TEST_CASE("two lists are one when each holds nearly all of the other") {
  Texts entries, most;
  for (int i = 0; i < 200; i++) entries.push_back("10.0.0." + std::to_string(i));
  most = entries;
  most.resize(195);
  for (int i = 0; i < 5; i++) most.push_back("10.0.1." + std::to_string(i));
  Policy policy = make_policy({make_list("a", WEIR_DROP, kSource, entries), make_list("b", WEIR_DROP, kSource, most)});
  CHECK(verdicts_in(answer_of(policy)) == Texts{"one a b"});
  most.resize(180);
  policy.lists[1] = make_list("b", WEIR_DROP, kSource, most);
  policy.lists[1].content = make_list("b", WEIR_DROP, kSource, {"10.0.0.1", "10.0.2.1"}).content;
  CHECK(verdicts_in(answer_of(policy)).empty());
}

TEST_CASE("the list that takes most for the fewest drops is named when packets were counted") {
  const Policy policy = make_policy({
      make_list("large", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"}),
      make_list("small", WEIR_DROP, kSource, {"10.0.1.1"}),
  });
  ListCounters counted;
  list_of(counted, "large").dropped_alone = 1000;
  list_of(counted, "small").dropped_alone = 3;
  CHECK(verdicts_in(answer_of(policy, counted, 0)).empty());
  CHECK(verdicts_in(answer_of(policy, counted, 10'000)) == Texts{"costly small"});
  list_of(counted, "large").dropped_alone = 0;
  CHECK(verdicts_in(answer_of(policy, counted, 10'000)) == Texts{"costly large"});
  CHECK(answer_of(policy, counted).lists[1].counted.dropped_alone == 3);
}

TEST_CASE("churn is what publications changed of a list that stays") {
  const int64_t since = 1'800'000'000, now = since + 2 * kADay_s;
  const std::vector<HistoryRow> history = {
      history_row(since + kADay_s + 60, {{"feed", "changed", 100, 5, 0}}),
      history_row(since + kADay_s, {{"feed", "changed", 95, 10, 15}, {"late", "new", 7, 7, 0}}),
      history_row(since, {{"feed", "new", 100, 100, 0}}),
  };
  const ListChurn feed = churn_of("feed", history, since, now);
  CHECK(feed.changes == 2);
  CHECK(feed.added == 15);
  CHECK(feed.removed == 15);
  CHECK(feed.changed_at == since + kADay_s + 60);
  CHECK(feed.known_since == since);
  REQUIRE(feed.per_day);
  CHECK(*feed.per_day == Approx(15));
  const ListChurn late = churn_of("late", history, since, now);
  CHECK(late.known_since == since + kADay_s);
  CHECK(late.changes == 0);
  CHECK(*late.per_day == 0);
  CHECK(churn_of("still", history, since, now).changed_at == 0);
  CHECK_FALSE(churn_of("feed", history, since, since + 60).per_day);
  CHECK_FALSE(churn_of("feed", {}, 0, now).per_day);
}

TEST_CASE("hits are of entries, and a frame is one sample however many of its layers match") {
  const Policy policy = make_policy({
      make_list("hosts", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2", "10.0.0.0/24"}),
      make_list("ports", WEIR_DROP, kDestination, {"10.0.0.1:443"}),
      make_list("never", WEIR_DROP, kEither, {"10.0.9.9", "2001:db8::1"}),
  });
  const auto packet_of = [](Ipv4 source, Ipv4 destination) {
    weir_packet packet = {};
    packet.family = 4;
    packet.address[0][0] = __builtin_bswap32(source);
    packet.address[1][0] = __builtin_bswap32(destination);
    packet.protocol = 6;
    packet.has = WEIR_HAS_PORTS;
    packet.port[0] = packet.port[1] = __builtin_bswap16(443);
    return packet;
  };
  const BuiltSnapshot snapshot = build_unproven(policy, 1);
  const filter::SnapshotView view = snapshot.view();
  HitCounter counter(policy.lists, view, 0);
  const weir_packet stranger[] = {packet_of(0x08080808, 0x0a000002)};
  const weir_packet host[] = {packet_of(0x0a000001, 0x08080808)};
  const weir_packet tunnel[] = {packet_of(0x0a000001, 0x08080808), packet_of(0x0a000007, 0x0a000001)};
  counter.add(stranger);
  CHECK(counter.hits()[0].samples == 0);
  counter.add(host);
  counter.add(host);
  CHECK(counter.hits()[0].samples == 2);
  CHECK(counter.hits()[0].entries == 2);  // the host, and the network that it lies in
  counter.add(tunnel);
  CHECK(counter.samples() == 4);
  CHECK(counter.hits()[0].samples == 3);
  CHECK(counter.hits()[0].entries == 2);
  CHECK(counter.hits()[1].samples == 1);
  CHECK(counter.hits()[1].entries == 1);
  CHECK(counter.hits()[2].samples == 0);
}

TEST_CASE("lists are compared anew when the next entry ends") {
  Policy policy = make_policy({make_list("hosts", WEIR_DROP, kSource, {"10.0.0.1", "10.0.0.2", "2001:db8::1"})});
  CHECK(first_end_after(policy.lists, 100) == kNever);
  {
    Edit hosts = edit(policy.lists[0]);
    hosts->v4[0].expires = 100;
    hosts->v4[1].expires = 300;
    hosts->v6[0].expires = 200;
  }
  CHECK(first_end_after(policy.lists, 50) == 100);
  CHECK(first_end_after(policy.lists, 100) == 200);
  CHECK(first_end_after(policy.lists, 300) == kNever);
}

}  // namespace weir::control
