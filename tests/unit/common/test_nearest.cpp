#include <array>

#include "common/nearest.h"
#include "tests/catch.h"

using weir::nearest_name;

TEST_CASE("the name that was meant is near, or the only one that begins so") {
  const std::array<std::string_view, 5> names = {"status", "stats", "bypass", "detach", "capture"};
  CHECK(nearest_name("statsu", names) == "stats");
  CHECK(nearest_name("bypas", names) == "bypass");
  CHECK(nearest_name("byp", names) == "bypass");
  CHECK(nearest_name("cap", names) == "capture");
  CHECK(nearest_name("st", names) == "");  // two begin so
  CHECK(nearest_name("everything", names) == "");
  CHECK(nearest_name("", names) == "");
  CHECK(nearest_name(std::string(65, 'b'), names) == "");
}
