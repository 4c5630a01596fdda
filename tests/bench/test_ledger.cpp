#include "tests/bench/ledger.h"
#include "tests/catch.h"

using weir::bench::Ledger;
using weir::bench::Policy;
using weir::bench::policy_of;

TEST_CASE("flow and output tell the policy") {
  CHECK(policy_of(4, true) == Policy::a);
  CHECK(policy_of(5, false) == Policy::a);
  CHECK(policy_of(4, false) == Policy::b);
  CHECK(policy_of(5, true) == Policy::b);
}

TEST_CASE("outputs that interleave are put in order") {
  Ledger ledger;
  for (uint64_t number : {1, 3, 0, 2, 5, 4}) ledger.arrive(number, Policy::a, false, 0);
  CHECK(ledger.received() == 6);
  CHECK(ledger.lost() + ledger.surplus() == 0);
  CHECK(ledger.newest() == 6);
  CHECK(ledger.changes().empty());
}

TEST_CASE("a swap is one change, a mixed burst is more") {
  Ledger clean, mixed;
  for (uint64_t number = 0; number < 8; number++) {
    clean.arrive(number, number < 4 ? Policy::a : Policy::b, false, number);
    mixed.arrive(number, number < 4 || number == 5 ? Policy::a : Policy::b, false, number);
  }
  REQUIRE(clean.changes().size() == 1);
  CHECK(clean.change_count() == 1);
  CHECK(clean.changes()[0].number == 4);
  CHECK(clean.changes()[0].seen_at == 4);
  CHECK(mixed.change_count() == 3);
}

TEST_CASE("a change after a pause of the sender is told apart") {
  Ledger ledger;
  ledger.arrive(0, Policy::a, true, 0);
  ledger.arrive(1, Policy::b, true, 0);
  ledger.arrive(2, Policy::a, false, 0);
  REQUIRE(ledger.changes().size() == 2);
  CHECK_FALSE(ledger.changes()[0].in_traffic);
  CHECK(ledger.changes()[1].in_traffic);
}

TEST_CASE("a packet that comes twice is surplus, before and after its turn") {
  Ledger ledger;
  for (uint64_t number : {0, 0, 2, 2, 1}) ledger.arrive(number, Policy::a, false, 0);
  CHECK(ledger.received() == 3);
  CHECK(ledger.surplus() == 2);
}

TEST_CASE("a hole is a loss when the window leaves it behind or the sender gives up") {
  Ledger ledger(100);
  ledger.arrive(100, Policy::a, false, 0);
  ledger.arrive(101 + Ledger::kWindow, Policy::a, false, 7);
  CHECK(ledger.lost() == 1);
  CHECK(ledger.lost_at() == std::vector<uint64_t>{7});
  ledger.give_up(110 + Ledger::kWindow, 9);
  CHECK(ledger.received() == 2);
  CHECK(ledger.lost() == 8 + Ledger::kWindow);
  CHECK(ledger.newest() == 110 + Ledger::kWindow);
  CHECK(ledger.changes().empty());
}
