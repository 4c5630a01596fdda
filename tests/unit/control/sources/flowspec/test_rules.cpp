// What a list is to hold for a peer: entries of several rules, sessions that begin anew, limits, refusals.
#include <algorithm>

#include "control/policy/model/range_text.h"
#include "control/sources/flowspec/rules.h"
#include "tests/catch.h"
#include "tests/unit/control/sources/flowspec/made.h"

namespace weir::control::flowspec {
namespace {

const Action kDrop = {true, ""}, kRate = {false, "traffic-rate 1000 bytes/s"};
const RuleKey kTcp = key_of(Family::v4, "01 20 c0 00 02 01 03 81 06");          // dst 192.0.2.1 tcp
const RuleKey kBoth = key_of(Family::v4, "01 20 c0 00 02 01 03 01 06 81 11");   // dst 192.0.2.1 tcp, udp
const RuleKey kOther = key_of(Family::v6, "01 40 00 20 01 0d b8 00 00 00 00");  // dst 2001:db8::/64
const std::string kTcpEntry = "dst 192.0.2.1 tcp", kUdpEntry = "dst 192.0.2.1 udp", kOtherEntry = "dst 2001:db8::/64";

constexpr uint64_t kNow = 1'800'000'000;

// The peer says its rules; entries that it may still say stay.
struct Table : RuleTable {
  explicit Table(Limits limits = {})
      : RuleTable(limits, [](const Flow& flow) -> Result<std::string> { return flow_line(flow); }) {
    list().set_phase(FollowedList::Phase::filling);
  }
  std::optional<FollowedList::Batch> next() {
    list().look(kNow, {});
    return list().next(kNow);
  }
  // The entries of the next change; none: it is of the other kind.
  std::vector<std::string> texts_of(bool is_add) {
    std::vector<std::string> texts;
    const std::optional<FollowedList::Batch> batch = next();
    if (!batch || batch->is_add != is_add) return texts;
    for (const FollowedList::Row& row : batch->rows) texts.push_back(row.entry);
    return texts;
  }
  std::vector<std::string> missing() { return texts_of(true); }
  std::vector<std::string> surplus() { return texts_of(false); }
  // All that is missing is added, all that is too much goes.
  void settle() {
    while (const std::optional<FollowedList::Batch> batch = next()) list().done(*batch);
    CHECK(counts().pending == 0);
  }
  void is_found(const std::vector<std::string>& entries) {
    list().begin_list();
    for (const std::string& entry : entries) list().has(entry, kNever, true);
    list().look(kNow, {});
  }
};

}  // namespace

TEST_CASE("an entry of two rules stays until both are withdrawn") {
  Table table;
  table.announce(kTcp, kDrop);
  table.announce(kBoth, kDrop);
  REQUIRE(table.missing().size() == 2);
  CHECK(table.counts() == RuleTable::Counts{2, 0, 0, 2});
  table.settle();
  CHECK(table.counts() == RuleTable::Counts{2, 0, 2, 0});
  table.withdraw(kBoth);
  CHECK(table.surplus() == std::vector{kUdpEntry});
  table.settle();
  table.withdraw(kTcp);
  CHECK(table.surplus() == std::vector{kTcpEntry});
  table.announce(kTcp, kDrop);  // comes back before it went
  CHECK(table.surplus().empty());
  CHECK(table.missing().empty());
  table.withdraw(kTcp);
  table.withdraw(kTcp);
  table.settle();
  CHECK(table.counts() == RuleTable::Counts{});
}

TEST_CASE("a rule that goes while its entries are added leaves none behind") {
  Table table;
  table.announce(kBoth, kDrop);
  const std::optional<FollowedList::Batch> missing = table.next();
  CHECK(missing->rows[0].comment == "dst 192.0.2.1/32 proto 6,17");
  table.withdraw(kBoth);
  table.list().done(*missing);
  CHECK(table.surplus().size() == 2);
  const std::optional<FollowedList::Batch> surplus = table.next();  // asked for before it comes
  table.announce(kTcp, kDrop);
  table.list().done(*surplus);
  CHECK(table.missing().size() == 1);
}

TEST_CASE("a session that begins anew takes out what it does not announce again") {
  Table table;
  for (const RuleKey& key : {kTcp, kBoth, kOther}) table.announce(key, kDrop);
  table.settle();
  table.begin_anew();
  table.announce(kTcp, kDrop);
  CHECK(table.missing().empty());
  CHECK(table.surplus().empty());
  table.end_of_rib(Family::v4);
  CHECK(table.surplus() == std::vector{kUdpEntry});
  table.end_of_rib(Family::v6);
  CHECK(table.surplus().size() == 2);
  table.clear();
  CHECK(table.surplus().size() == 3);
}

TEST_CASE("what another program left in the list is claimed, or is nobody's") {
  Table table;
  table.is_found({kTcpEntry, kUdpEntry});
  CHECK(table.counts().entries == 2);
  CHECK(table.surplus().empty());
  table.announce(kTcp, kDrop);
  CHECK(table.missing().empty());
  CHECK(table.surplus().empty());
  table.list().set_phase(FollowedList::Phase::whole);
  CHECK(table.surplus() == std::vector{kUdpEntry});
  table.announce(kOther, kDrop);
  table.settle();
  table.is_found({kOtherEntry});  // somebody took one out
  CHECK(table.missing() == std::vector{kTcpEntry});
}

TEST_CASE("rules without entries are refused, each once for each reason") {
  Table table;
  table.announce(kTcp, kRate);
  table.announce(kTcp, kRate);
  std::vector<RuleTable::Refusal> refusals = table.take_refusals();
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].rule == "dst 192.0.2.1/32 proto 6");
  CHECK(refusals[0].reason == "it does not drop (traffic-rate 1000 bytes/s): weir takes traffic-rate 0");
  CHECK(table.counts() == RuleTable::Counts{1, 1, 0, 0});
  table.announce(kTcp, kDrop);
  CHECK(table.take_refusals().empty());
  table.settle();
  table.announce(kTcp, kRate);  // no longer
  CHECK(table.surplus() == std::vector{kTcpEntry});
  CHECK(table.take_refusals().size() == 1);
  table.announce(key_of(Family::v4, "03 81"), kDrop);
  refusals = table.take_refusals();
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].reason == "malformed: component proto is cut off");
}

TEST_CASE("a rule that controld refuses is tried again when it is asked for, and told once") {
  Table table;
  table.announce(kBoth, kDrop);
  CHECK(table.list().refused(*table.next(), "too many conditions"));
  CHECK(table.missing().empty());
  CHECK(table.take_refusals().size() == 1);
  CHECK(table.counts() == RuleTable::Counts{1, 1, 0, 0});
  table.announce(kBoth, kDrop);  // says nothing new
  CHECK(table.missing().empty());
  table.retry();
  REQUIRE(table.missing().size() == 2);
  CHECK(table.list().refused(*table.next(), "too many conditions"));
  CHECK(table.take_refusals().empty());
  table.retry();
  table.settle();
  CHECK(table.counts() == RuleTable::Counts{1, 0, 2, 0});
}

TEST_CASE("limits of rules and of entries hold") {
  Table table({2, 2});
  table.announce(kBoth, kDrop);
  table.announce(kOther, kDrop);
  REQUIRE(table.take_refusals()[0].reason == "the rules are 2 entries already: 2 are the most");
  table.announce(kTcp, kDrop);
  CHECK(table.take_refusals()[0].reason.starts_with("there are 2 rules already (--max-rules)"));
  table.withdraw(kTcp);
  CHECK(table.counts() == RuleTable::Counts{2, 1, 0, 1});
}

TEST_CASE("whatever comes and goes, the list ends with what is announced") {
  CHECK(rc::check([] {
    Table table;
    std::set<std::string> list;
    std::map<RuleKey, std::set<std::string>> announced;
    const std::map<RuleKey, std::set<std::string>> rules = {
        {kTcp, {kTcpEntry}}, {kBoth, {kTcpEntry, kUdpEntry}}, {kOther, {kOtherEntry}}};
    std::optional<FollowedList::Batch> on_its_way;
    const auto arrive = [&] {
      if (!on_its_way) return;
      for (const FollowedList::Row& row : on_its_way->rows) {
        on_its_way->is_add ? (void)list.insert(row.entry) : (void)list.erase(row.entry);
      }
      table.list().done(*std::exchange(on_its_way, std::nullopt));
    };
    for (int i = 0; i < 40; i++) {
      const auto rule = std::next(rules.begin(), *rc::gen::inRange(0, 3));
      switch (*rc::gen::inRange(0, 6)) {
        case 0:
        case 1:
          table.announce(rule->first, kDrop);
          announced.insert(*rule);
          break;
        case 2:
          table.withdraw(rule->first);
          announced.erase(rule->first);
          break;
        case 3:  // a request, whose answer comes later
          if (!on_its_way) on_its_way = table.next();
          break;
        case 4:
          arrive();
          break;
        default:
          if (!on_its_way) table.is_found({list.begin(), list.end()});
      }
    }
    arrive();
    table.list().set_phase(FollowedList::Phase::whole);
    while ((on_its_way = table.next())) arrive();
    std::set<std::string> expected;
    for (const auto& [key, entries] : announced) expected.insert(entries.begin(), entries.end());
    RC_ASSERT(list == expected);
  }));
}

}  // namespace weir::control::flowspec
