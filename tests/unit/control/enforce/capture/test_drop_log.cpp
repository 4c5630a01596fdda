// What is kept of the drops, who reads which of them, and how large a share is sampled while somebody follows.
#include "control/enforce/capture/drop_log.h"
#include "control/enforce/capture/pace.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

namespace {

Drop drop_of(uint64_t number, const std::string& list) {
  Drop drop;
  drop.frame.sample.time_unix_ns = number;
  drop.frame.sample.frame_bytes = 60;
  if (list.empty()) drop.frame.sample.dropped_by = wire::DroppedBy::default_action;
  wire::set_text(drop.frame.sample.list, list);
  drop.frame.bytes = std::vector<std::byte>(14);
  return drop;
}

DropLog::Wanted wanted(const std::string& list, const std::string& expression) {
  Result<FrameFilter> filter = FrameFilter::compile(expression);
  REQUIRE(filter);
  return {list, std::move(*filter)};
}

DropLog::Wanted all() {
  return wanted("", "");
}

std::vector<uint64_t> times_of(const DropLog::Page& page) {
  std::vector<uint64_t> times;
  for (const Drop* drop : page.drops) times.push_back(drop->frame.sample.time_unix_ns);
  return times;
}

}  // namespace

TEST_CASE("a reader gets each drop once, page by page") {
  DropLog log;
  CHECK(log.page(0, all(), 10).drops.empty());
  for (uint64_t i = 1; i <= 25; i++) log.add(drop_of(i, "a"));
  uint64_t after = 0;
  std::vector<uint64_t> seen;
  for (int page = 0; page < 4; page++) {
    const DropLog::Page found = log.page(after, all(), 10);
    CHECK(found.missed == 0);
    for (const uint64_t time : times_of(found)) seen.push_back(time);
    after = found.last;
  }
  REQUIRE(seen.size() == 25);
  for (uint64_t i = 0; i < 25; i++) CHECK(seen[i] == i + 1);
  CHECK(log.page(99, all(), 10).last == 25);  // of another log
  CHECK(log.id() != DropLog().id());
}

TEST_CASE("what is no longer kept is told as missed") {
  DropLog log;
  for (uint64_t i = 1; i <= DropLog::kMostKept + 100; i++) log.add(drop_of(i, "a"));
  CHECK(log.size() == DropLog::kMostKept);
  const DropLog::Page page = log.page(40, all(), 3);
  CHECK(page.missed == 60);
  CHECK(times_of(page) == std::vector<uint64_t>{101, 102, 103});
  CHECK(page.last == 103);
  CHECK(log.page(100, all(), 3).missed == 0);
}

TEST_CASE("only what is wanted is told, and the rest is passed by") {
  DropLog log;
  for (const char* list : {"a", "b", "", "a"}) log.add(drop_of(log.added() + 1, list));
  CHECK(times_of(log.page(0, wanted("a", ""), 10)) == std::vector<uint64_t>{1, 4});
  CHECK(log.page(0, wanted("a", ""), 1).last == 1);
  const DropLog::Page none = log.page(0, wanted("c", ""), 10);
  CHECK(none.drops.empty());
  CHECK(none.last == 4);
  CHECK(log.page(0, wanted("", "greater 61"), 10).drops.empty());
  CHECK(log.page(0, wanted("", "greater 60"), 10).drops.size() == 4);
  CHECK(log.page(0, wanted("a", "greater 60"), 10).drops.size() == 2);
}

TEST_CASE("the share follows what is dropped") {
  Pace pace;
  CHECK(pace.one_in() > 500);
  const auto second_of = [&](double drops_per_second) {
    for (int i = 0; i < 4; i++) pace.take(static_cast<uint64_t>(drops_per_second / pace.one_in() / 4), 0.25);
  };
  for (int s = 0; s < 3; s++) second_of(5);
  CHECK(pace.one_in() == 1);
  for (const double flood : {1e4, 1e6, 2e7, 1e5}) {
    CAPTURE(flood);
    for (int s = 0; s < 5; s++) second_of(flood);
    const double samples = flood / pace.one_in();
    CHECK(samples <= 2 * Pace::kWantedPerSecond);
    CHECK(samples >= Pace::kWantedPerSecond / 2.5);
  }
  pace.take(1000, 0);  // no time has passed
  for (int s = 0; s < 10; s++) second_of(0);
  CHECK(pace.one_in() == 1);
}
