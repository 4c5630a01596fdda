// The steps of docs/develop/adding.md, "To add a feed format", followed for a format of this test: addresses behind a
// sinkhole's host names, as `host NAME ADDRESS`.
#include <sstream>
#include <string>
#include <string_view>

#include "control/read/feeds/entry_text.h"
#include "control/read/feeds/format.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

// Step 1: one function.
void read_hosts(std::string_view text, const feeds::Options& options, ListDraft& list) {
  std::istringstream lines{std::string(text)};
  uint32_t line = 0;
  const uint64_t before = list.entries();
  for (std::string one; std::getline(lines, one);) {
    line++;
    std::istringstream words(one);
    std::string keyword, name, address;
    words >> keyword >> name >> address;
    const EntryText parsed = parse_entry(address);
    const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed);
    if (keyword != "host" || v4 == nullptr) {
      feeds::add_bad_line(list.feed, line, one, "not `host NAME ADDRESS`");
    } else {
      list.v4.push_back({v4->first, v4->last, line, v4->port, options.directions, 1});
    }
  }
  list.feed.lines += line;
  list.feed.entries += list.entries() - before;
}

// Step 2: its row.
constexpr feeds::Format kHosts = {"hosts", "host NAME ADDRESS, a line each", read_hosts};

}  // namespace

TEST_CASE("a format of one function and one row reads a feed") {
  ListDraft list;
  kHosts.read("host a 192.0.2.1\nnonsense\nhost b 192.0.2.2\n", {.directions = WEIR_AS_DESTINATION}, list);
  CHECK(list.feed.lines == 3);
  CHECK(list.feed.entries == 2);
  REQUIRE(list.v4.size() == 2);
  CHECK(list.v4[1].first == 0xc0000202);
  CHECK(list.v4[1].line == 3);
  REQUIRE(list.feed.samples.size() == 1);
  CHECK(list.feed.samples[0].line == 2);
}

TEST_CASE("every format of the table has a name of its own, a line for people, and reads any bytes") {
  for (const feeds::Format& format : feeds::formats()) {
    INFO(format.name);
    CHECK(feeds::find_format(format.name) == &format);
    CHECK(!std::string_view(format.what).empty());
    const std::string good = "192.0.2.1\n2001:db8::1\n198.51.100.0/24 remark\n\xff\n\n";
    for (size_t cut = 0; cut <= good.size(); cut++) {
      ListDraft list;
      format.read(std::string_view(good).substr(0, cut), {}, list);
      CHECK(list.feed.entries == list.entries());
      CHECK(list.feed.entries + list.feed.bad <= list.feed.lines);
    }
  }
}
