// Entries of a list page by page, each page from the place that the one before printed: all of them, once, in order.
#include <fmt/format.h>

#include <algorithm>

#include "control/tell/answer/list.h"
#include "tests/catch.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

using Texts = std::vector<std::string>;

// More than a page of each family, in their order.
Texts sample_entries() {
  constexpr unsigned kEach = kTextsOfPage + 1234;
  Texts texts;
  for (unsigned i = 0; i < kEach; i++) texts.push_back(fmt::format("10.{}.{}.{}", i >> 16, i >> 8 & 0xff, i & 0xff));
  for (unsigned i = 1; i <= kEach; i++) texts.push_back(fmt::format("2001:db8::{:x}", i));
  return texts;
}

// The place behind a page, as who asks for the next one gives it back.
EntriesPlace given_back(const EntriesPlace& place) {
  INFO(place.print());
  const std::optional<EntriesPlace> parsed = EntriesPlace::parse(place.print());
  REQUIRE(parsed);
  CHECK(parsed->generation == place.generation);
  CHECK(parsed->part == place.part);
  CHECK(parsed->row == place.row);
  CHECK(parsed->text == place.text);
  return *parsed;
}

}  // namespace

TEST_CASE("pages of entries") {
  const Texts all = sample_entries();
  const List list = make_list("big", WEIR_DROP, kEither, all);

  Texts exported;
  for (EntriesPlace place; place.part != EntriesPlace::Part::end; place = given_back(place)) {
    const Texts page = live_entries(list, 1'800'000'000, place);
    REQUIRE(page.size() <= kTextsOfPage);
    exported.insert(exported.end(), page.begin(), page.end());
  }
  CHECK(exported == all);

  Texts written;
  for (EntriesPlace place; place.part != EntriesPlace::Part::added; place = given_back(place)) {
    const std::vector<EntryDetails> page = written_entries(list, place);
    REQUIRE(page.size() <= kEntriesOfPage);
    for (const EntryDetails& entry : page) written.push_back(entry.entry);
  }
  CHECK(written == all);
}

TEST_CASE("places of pages as text") {
  for (const auto part : {EntriesPlace::Part::v4, EntriesPlace::Part::v6, EntriesPlace::Part::flows,
                          EntriesPlace::Part::added, EntriesPlace::Part::end}) {
    (void)given_back({5, part, 0, ""});
    (void)given_back({~0ull, part, 10'000, "src 192.0.2.1 dst 2001:db8::/32"});
  }
  for (const char* bad : {"", "5", "5i", "5i1", "i1.", "5x1.", "5i-1.", "-5i1.", "5i99999999999999999999."}) {
    INFO(bad);
    CHECK_FALSE(EntriesPlace::parse(bad));
  }
}

}  // namespace weir::control
