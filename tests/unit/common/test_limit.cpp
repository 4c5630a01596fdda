#include <string>

#include "common/log/limit.h"
#include "tests/catch.h"

using weir::log::Limit;
using namespace std::chrono_literals;

namespace {
const weir::Clock::time_point kBegin{1000s};
}

TEST_CASE("a few of the same event, then how many were left out") {
  Limit limit;
  for (unsigned i = 0; i < Limit::kPerSubject; i++) CHECK(limit.admit("target lost", "a", kBegin + i * 1ms) == 0u);
  for (unsigned i = 0; i < 7; i++) CHECK_FALSE(limit.admit("target lost", "a", kBegin + 1s));
  CHECK(limit.admit("target lost", "b", kBegin + 1s) == 0u);  // another subject
  CHECK(limit.admit("link up", "a", kBegin + 1s) == 0u);      // another event
  CHECK_FALSE(limit.admit("target lost", "a", kBegin + Limit::kWindow - 1ms));
  CHECK(limit.admit("target lost", "a", kBegin + Limit::kWindow) == 8u);
  CHECK(limit.admit("target lost", "a", kBegin + Limit::kWindow + 1ms) == 0u);
}

TEST_CASE("subjects that somebody makes up cannot fill the log, nor memory") {
  Limit limit;
  unsigned told = 0;
  uint64_t left_out = 0;
  constexpr unsigned kEvents = 200'000;
  for (unsigned i = 0; i < kEvents; i++) {  // 1000 a second, each of a subject of its own
    const auto admitted = limit.admit("feed not fetched", "subject " + std::to_string(i), kBegin + i * 1ms);
    if (admitted) told++, left_out += *admitted;
    REQUIRE(limit.subjects() <= Limit::kMostSubjects);
  }
  const unsigned windows = kEvents / (Limit::kWindow / 1ms);
  CHECK(told == windows * Limit::kPerEvent);
  const auto last = limit.admit("feed not fetched", "the last", kBegin + 1h);
  REQUIRE(last);
  CHECK(told + left_out + *last == kEvents);  // whatever was left out is told of
}
