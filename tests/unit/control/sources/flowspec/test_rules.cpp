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

RuleTable table_of(RuleTable::Limits limits = {}) {
  return RuleTable(limits, [](const Flow& flow) -> Result<std::string> { return flow_line(flow); });
}

// All that is missing is added, all that is too much goes.
void settle(RuleTable& table) {
  for (const RuleTable::Wanted& rule : table.missing()) table.is_added(rule);
  table.is_deleted(table.surplus());
  CHECK((table.missing().empty() && table.surplus().empty()));
}

}  // namespace

TEST_CASE("an entry of two rules stays until both are withdrawn") {
  RuleTable table = table_of();
  table.announce(kTcp, kDrop);
  table.announce(kBoth, kDrop);
  REQUIRE(table.missing().size() == 2);
  CHECK(table.counts() == RuleTable::Counts{2, 0, 0, 2});
  settle(table);
  CHECK(table.counts() == RuleTable::Counts{2, 0, 2, 0});
  table.withdraw(kBoth);
  CHECK(table.surplus() == std::vector{kUdpEntry});
  settle(table);
  table.withdraw(kTcp);
  CHECK(table.surplus() == std::vector{kTcpEntry});
  table.announce(kTcp, kDrop);  // comes back before it went
  CHECK(table.surplus().empty());
  CHECK(table.missing().empty());
  table.withdraw(kTcp);
  table.withdraw(kTcp);
  settle(table);
  CHECK(table.counts() == RuleTable::Counts{});
}

TEST_CASE("a rule that goes while its entries are added leaves none behind") {
  RuleTable table = table_of();
  table.announce(kBoth, kDrop);
  const std::vector<RuleTable::Wanted> missing = table.missing();
  table.withdraw(kBoth);
  for (const RuleTable::Wanted& rule : missing) table.is_added(rule);
  CHECK(table.surplus().size() == 2);
  table.announce(kTcp, kDrop);
  table.is_deleted({kTcpEntry, kUdpEntry});  // asked for before it came
  CHECK(table.missing().size() == 1);
}

TEST_CASE("a session that begins anew takes out what it does not announce again") {
  RuleTable table = table_of();
  for (const RuleKey& key : {kTcp, kBoth, kOther}) table.announce(key, kDrop);
  settle(table);
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
  RuleTable table = table_of();
  table.is_found({kTcpEntry, kUdpEntry});
  CHECK(table.unclaimed().size() == 2);
  CHECK(table.surplus().empty());
  table.announce(kTcp, kDrop);
  CHECK(table.missing().empty());
  CHECK(table.unclaimed() == std::vector{kUdpEntry});
  table.announce(kOther, kDrop);
  settle(table);
  table.is_found({kOtherEntry});  // somebody took one out
  REQUIRE(table.missing().size() == 1);
  CHECK(table.missing()[0].entries == std::vector{kTcpEntry});
}

TEST_CASE("rules without entries are refused, each once for each reason") {
  RuleTable table = table_of();
  table.announce(kTcp, kRate);
  table.announce(kTcp, kRate);
  std::vector<RuleTable::Refusal> refusals = table.take_refusals();
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].rule == "dst 192.0.2.1/32 proto 6");
  CHECK(refusals[0].reason == "it does not drop (traffic-rate 1000 bytes/s): weir takes traffic-rate 0");
  CHECK(table.counts() == RuleTable::Counts{1, 1, 0, 0});
  table.announce(kTcp, kDrop);
  CHECK(table.take_refusals().empty());
  settle(table);
  table.announce(kTcp, kRate);  // no longer
  CHECK(table.surplus() == std::vector{kTcpEntry});
  CHECK(table.take_refusals().size() == 1);
  table.announce(key_of(Family::v4, "03 81"), kDrop);
  refusals = table.take_refusals();
  REQUIRE(refusals.size() == 1);
  CHECK(refusals[0].reason == "malformed: component proto is cut off");
}

TEST_CASE("a rule that controld refuses is tried again when it is asked for, and told once") {
  RuleTable table = table_of();
  table.announce(kBoth, kDrop);
  table.refuse(table.missing()[0], "too many conditions");
  CHECK(table.missing().empty());
  CHECK(table.counts() == RuleTable::Counts{1, 1, 0, 0});
  CHECK(table.take_refusals().size() == 1);
  table.announce(kBoth, kDrop);  // says nothing new
  CHECK(table.missing().empty());
  table.retry();
  REQUIRE(table.missing().size() == 1);
  table.refuse(table.missing()[0], "too many conditions");
  CHECK(table.take_refusals().empty());
  table.retry();
  settle(table);
  CHECK(table.counts() == RuleTable::Counts{1, 0, 2, 0});
}

TEST_CASE("limits of rules and of entries hold") {
  RuleTable table = table_of({2, 2});
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
    RuleTable table = table_of();
    std::set<std::string> list;
    std::map<RuleKey, std::set<std::string>> announced;
    const std::map<RuleKey, std::set<std::string>> rules = {
        {kTcp, {kTcpEntry}}, {kBoth, {kTcpEntry, kUdpEntry}}, {kOther, {kOtherEntry}}};
    std::vector<RuleTable::Wanted> on_its_way;
    std::vector<std::string> going;
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
          if (on_its_way.empty() && going.empty()) on_its_way = table.missing(), going = table.surplus();
          break;
        case 4:
          for (const std::string& entry : going) list.erase(entry);
          table.is_deleted(std::exchange(going, {}));
          for (const RuleTable::Wanted& each : std::exchange(on_its_way, {})) {
            list.insert(each.entries.begin(), each.entries.end());
            table.is_added(each);
          }
          break;
        default:
          if (on_its_way.empty() && going.empty()) table.is_found({list.begin(), list.end()});
      }
    }
    for (const std::string& entry : going) list.erase(entry);
    table.is_deleted(going);
    for (const RuleTable::Wanted& each : on_its_way) {
      list.insert(each.entries.begin(), each.entries.end());
      table.is_added(each);
    }
    for (const std::string& entry : table.surplus()) list.erase(entry);
    for (const std::string& entry : table.unclaimed()) list.erase(entry);
    for (const RuleTable::Wanted& each : table.missing()) list.insert(each.entries.begin(), each.entries.end());
    std::set<std::string> expected;
    for (const auto& [key, entries] : announced) expected.insert(entries.begin(), entries.end());
    RC_ASSERT(list == expected);
  }));
}

}  // namespace weir::control::flowspec
