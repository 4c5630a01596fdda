#include "control/tell/page/facts.h"
#include "tests/catch.h"
#include "tests/unit/control/tell/page/page_facts.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::page;

namespace {

StatsAnswer answer_of(std::vector<TargetStats> targets) {
  StatsAnswer answer;
  for (TargetStats& target : targets) add(answer, std::move(target));
  return answer;
}

}  // namespace

TEST_CASE("rates are by the targets' own clocks, and sums of all targets") {
  TargetStats one = stats_called("a", 1'000'000, 1000), other = stats_called("b", 4'000'000'000, 0);
  list_of(one.lists, "scanners").matched = 10;
  const StatsAnswer before = answer_of({one, other});
  one = stats_called("a", 3'000'000, 3000);
  list_of(one.lists, "scanners") = counters(50, 20);
  other = stats_called("b", 4'001'000'000, 8000);
  list_of(other.lists, "scanners").matched = 5;
  list_of(other.lists, "scanners").would_drop = 5;
  list_of(other.lists, "quiet");
  const std::optional<Rates> rates = rates_between(before, answer_of({one, other}), kNow);
  REQUIRE(rates);
  CHECK(rates->seconds == Approx(2));
  CHECK(rates->packets == Approx(1000 + 8000));
  CHECK(rates->dropped == Approx(100 + 800));
  CHECK(rates->passed == Approx(900 + 7200));
  CHECK(rates->bits == Approx(8 * 100 * 9000));
  REQUIRE(rates->list("scanners") != nullptr);
  CHECK(rates->list("scanners")->matched == Approx(20 + 5));
  CHECK(rates->list("scanners")->dropped == Approx(10));
  CHECK(rates->list("scanners")->would_drop == Approx(5));
  CHECK(rates->list("quiet") == nullptr);
  REQUIRE(rates->target("b") != nullptr);
  CHECK(rates->target("b")->packets == Approx(8000));
}

TEST_CASE("the clock of a target begins anew after 71 minutes") {
  const std::optional<Rates> rates = rates_between(answer_of({stats_called("a", UINT32_MAX - 499'999, 100)}),
                                                   answer_of({stats_called("a", 500'000, 200)}), kNow);
  REQUIRE(rates);
  CHECK(rates->seconds == Approx(1));
  CHECK(rates->packets == Approx(100));
}

TEST_CASE("a target that was away, is new, was started anew or did not tell has no rate") {
  const StatsAnswer before = answer_of({stats_called("a", 1'000'000, 1000)});
  CHECK_FALSE(rates_between(before, answer_of({}), kNow));
  CHECK_FALSE(rates_between(before, answer_of({stats_called("b", 2'000'000, 2000)}), kNow));
  CHECK_FALSE(rates_between(before, answer_of({stats_called("a", 2'000'000, 999)}), kNow));
  TargetStats again = stats_called("a", 2'000'000, 2000);
  again.start_time++;
  CHECK_FALSE(rates_between(before, answer_of({again}), kNow));
  TargetStats silent = stats_called("a", 2'000'000, 2000);
  silent.fresh = false;
  CHECK_FALSE(rates_between(before, answer_of({silent}), kNow));
}

TEST_CASE("looks are kept for five minutes, and not more often than needed") {
  Looks looks;
  CHECK(looks.is_due(kNow));
  CHECK(looks.now() == nullptr);
  for (uint32_t second = 0; second <= 400; second += 2) {
    looks.add(answer_of({stats_called("a", second * 1'000'000, second * 1000)}), static_cast<double>(kNow) + second);
  }
  CHECK(looks.rates().size() == 151);
  REQUIRE(looks.now() != nullptr);
  CHECK(looks.now()->packets == Approx(1000));
  CHECK_FALSE(looks.is_due(kNow + 401));
  CHECK(looks.is_due(kNow + 402));
  CHECK(looks.is_due(kNow));  // the clock was set back

  looks.add(answer_of({}), kNow + 402);  // the target is away
  CHECK(looks.now() == nullptr);
  CHECK_FALSE(looks.rates().empty());
  looks.add(answer_of({stats_called("a", 9, 9)}), kNow + 5000);  // nobody looked for long
  CHECK(looks.rates().empty());
}
