#include "control/compile/preview/over_limit.h"
#include "tests/catch.h"

using namespace weir::control;

TEST_CASE("a limit is exceeded by the estimate, and never without samples") {
  PlanSettings settings;
  Radius radius;
  radius.samples = 1000;
  radius.newly_dropped = {0.02, 0.01, 0.03};
  radius.newly_passed = {0.001, 0, 0.002};
  CHECK(over_limits(settings, radius).empty());
  settings.max_newly_dropped = 0.02;
  settings.max_newly_passed = 0.001;
  CHECK(over_limits(settings, radius).empty());
  settings.max_newly_dropped = 0.01;
  const std::vector<OverLimit> over = over_limits(settings, radius);
  REQUIRE(over.size() == 1);
  CHECK(over[0].text() == "2 % of the recent packets (1 to 3 %) would newly be dropped: plan.max_newly_dropped is 1 %");
  settings.max_newly_passed = 0;
  REQUIRE(over_limits(settings, radius).size() == 2);
  CHECK(over_limits(settings, radius)[1].text() ==
        "0.1 % of the recent packets (0 to 0.2 %) would newly be passed: plan.max_newly_passed is 0 %");
  radius.samples = 0;
  CHECK(over_limits(settings, radius).empty());
}
