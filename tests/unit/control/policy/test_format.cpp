// The steps of docs/develop/adding.md, "To add a feed format", followed for a format of this test: addresses behind a
// sinkhole's host names, as `host NAME ADDRESS`.
#include <string>
#include <string_view>

#include "control/policy/feeds/format.h"
#include "control/policy/feeds/take.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

// Step 1: what reads a line, what a feed of it looks like, and a reader of parts.
feeds::Outcome read_host(std::string_view line, uint32_t number, const feeds::Options& options, ListDraft& list) {
  const std::string_view keyword = feeds::next_word(line), name = feeds::next_word(line);
  if (keyword != "host" || name.empty()) return "not `host NAME ADDRESS`";
  return feeds::take(feeds::next_word(line), {number}, options, list);
}

std::string recognise_hosts(std::string_view beginning) {
  return feeds::recognise_lines(
      beginning, [](std::string_view line) { return line.starts_with("host "); }, "begins with `host`");
}

feeds::Read start_hosts(const feeds::Options& options, std::string_view /*beginning*/) {
  return [options](std::string_view part, ListDraft& list) {
    feeds::read_lines(part, list,
                      [&](std::string_view line, uint32_t number) { return read_host(line, number, options, list); });
  };
}

// Step 2: its row.
const feeds::Format kHosts = {"hosts", "host NAME ADDRESS, a line each", recognise_hosts, start_hosts};

}  // namespace

TEST_CASE("a format of one function and one row reads a feed") {
  ListDraft list;
  const std::string text = "host a 192.0.2.1\nnonsense\nhost b 192.0.2.2\n";
  CHECK(kHosts.recognise(text) == "line 1 begins with `host`");
  feeds::read_text(kHosts, text, {.directions = WEIR_AS_DESTINATION}, list);
  CHECK(list.feed.lines == 3);
  CHECK(list.feed.entries == 2);
  REQUIRE(list.v4.size() == 2);
  CHECK(list.v4[1].first == 0xc0000202);
  CHECK(list.v4[1].line == 3);
  REQUIRE(list.feed.samples.size() == 1);
  CHECK(list.feed.samples[0].line == 2);
}

TEST_CASE("every format of the table has a name of its own, a line for people, and reads any bytes") {
  for (const feeds::Format* format : feeds::formats()) {
    INFO(format->name);
    CHECK(feeds::find_format(format->name) == format);
    CHECK(!std::string_view(format->what).empty());
    const std::string good = "192.0.2.1\n2001:db8::1\n198.51.100.0/24 remark\n\xff\n\n";
    for (size_t cut = 0; cut <= good.size(); cut++) {
      ListDraft list;
      feeds::read_text(*format, std::string_view(good).substr(0, cut), {}, list);
      CHECK(list.feed.entries == list.entries());
      CHECK(list.feed.entries + list.feed.bad <= list.feed.lines);
    }
  }
  CHECK(feeds::find_format("auto") == nullptr);
  CHECK(feeds::formats().back() == &feeds::plain_format());
}
