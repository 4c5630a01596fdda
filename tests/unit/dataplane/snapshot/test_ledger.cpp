#include "dataplane/snapshot/ledger.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

wire::ListStats counts(const std::string& name, uint64_t n) {
  wire::ListStats stats = {};
  wire::set_text(stats.name, name);
  stats.matched = n;
  stats.dropped = n + 1;
  stats.passed = n + 2;
  stats.would_drop = n + 3;
  stats.matched_bytes = n + 4;
  stats.dropped_bytes = n + 5;
  stats.passed_bytes = n + 6;
  stats.would_drop_bytes = n + 7;
  stats.dropped_alone = n + 8;
  stats.would_drop_alone = n + 9;
  stats.dropped_alone_bytes = n + 10;
  stats.would_drop_alone_bytes = n + 11;
  return stats;
}

}  // namespace

TEST_CASE("counters follow the list's name from snapshot to snapshot") {
  Ledger ledger;
  ledger.retire({counts("a", 10), counts("b", 100)});
  ledger.retire({counts("b", 1000), counts("c", 1)});
  const std::vector<wire::ListStats> totals = ledger.totals({counts("c", 5), counts("new", 7)});
  REQUIRE(totals.size() == 4);  // the current ones in their order, then the former ones
  CHECK(wire::get_text(totals[0].name) == "c");
  CHECK(totals[0].matched == 6);
  CHECK(totals[0].would_drop_bytes == 5 + 7 + 1 + 7);
  CHECK(wire::get_text(totals[1].name) == "new");
  CHECK(totals[1].matched == 7);
  CHECK(wire::get_text(totals[2].name) == "a");
  CHECK(totals[2].dropped == 11);
  CHECK(wire::get_text(totals[3].name) == "b");
  CHECK(totals[3].matched == 1100);
  CHECK(totals[3].dropped == 1102);
  CHECK(totals[3].passed == 1104);
  CHECK(totals[3].would_drop == 1106);
  CHECK(totals[3].matched_bytes == 1108);
  CHECK(totals[3].dropped_bytes == 1110);
  CHECK(totals[3].passed_bytes == 1112);
  CHECK(totals[3].dropped_alone == 1116);
  CHECK(totals[3].would_drop_alone == 1118);
  CHECK(totals[3].dropped_alone_bytes == 1120);
  CHECK(totals[3].would_drop_alone_bytes == 1122);
}

TEST_CASE("names that change for ever do not grow it") {
  Ledger ledger;
  for (uint64_t i = 0; i < 3 * kMaxFormerLists; i++) {
    ledger.retire({counts("kept", 1), counts("list-" + std::to_string(i), 1)});
  }
  const std::vector<wire::ListStats> totals = ledger.totals({});
  CHECK(totals.size() == kMaxFormerLists);
  CHECK(ledger.totals({counts("kept", 1)})[0].matched == 3 * kMaxFormerLists + 1);
}
