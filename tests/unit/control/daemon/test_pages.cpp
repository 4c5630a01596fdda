#include "control/daemon/pages.h"
#include "tests/catch.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

TEST_CASE("books that somebody reads stay, and go when nobody does") {
  Loop loop;
  PagedBooks pages(loop, std::chrono::milliseconds(200));
  std::weak_ptr<const Book> first;
  for (uint64_t number = 1; number <= 5; number++) {
    const auto book = std::make_shared<const Book>();
    if (number == 1) first = book;
    REQUIRE(pages.book(0, {7, number}, book) != nullptr);
    REQUIRE(pages.book(1, {7, number}, nullptr) != nullptr);  // it is being read, though it is the oldest
  }
  CHECK(pages.book(2, {7, 5}, nullptr) == nullptr);
  CHECK(pages.book(3, {7, 5}, nullptr)->generation.number == 3);
  CHECK(pages.book(0, {7, 5}, nullptr)->generation.number == 5);
  REQUIRE_FALSE(first.expired());
  CHECK(eventually(loop, [&] { return first.expired(); }));
}
