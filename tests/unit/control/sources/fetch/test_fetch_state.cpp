// When a feed is asked for again, and its state on disk: whole, damaged, of another version. What people see of an url.
#include "control/sources/fetch/state.h"
#include "tests/catch.h"

using namespace weir::control;

namespace {

constexpr int64_t kNow = 1'700'000'000;
constexpr uint64_t kHour = 3600;

FetchState some_state() {
  return {"https://example.net/a", "W/\"1 2\"", "Wed, 21 Oct 2026 07:28:00 GMT", 1, 2, 3, 4, 5, 6,
          "the server answers 500"};
}

}  // namespace

TEST_CASE("after a success: in `every`, 10 % more or less") {
  CHECK(next_after_success(kNow, kHour, 0) == kNow + 3240);
  CHECK(next_after_success(kNow, kHour, 0.5) == kNow + 3600);
  CHECK(next_after_success(kNow, kHour, 1) == kNow + 3960);
  CHECK(next_after_success(kNow, 30, 0) == kNow + 27);
}

TEST_CASE("after failures: twice as long each time, at most `every` or an hour, and half of that at least") {
  int64_t last = 0;
  for (uint32_t failures = 1; failures <= 40; failures++) {
    const int64_t most = next_after_failure(kNow, kHour, failures, 0, 1) - kNow;
    INFO(failures);
    CHECK(most == std::min<int64_t>(30 << std::min(failures - 1, 20u), 3600));
    CHECK(next_after_failure(kNow, kHour, failures, 0, 0) - kNow == most / 2);
    CHECK(most >= last);
    last = most;
  }
  CHECK(next_after_failure(kNow, 30, 100, 0, 1) == kNow + 3600);
  CHECK(next_after_failure(kNow, 7 * 86400, 100, 0, 1) == kNow + 7 * 86400);
  CHECK(next_after_failure(kNow, kHour, 0, 0, 1) == kNow + 30);
  CHECK(next_after_failure(kNow, kHour, UINT32_MAX, 0, 1) == kNow + 3600);
}

TEST_CASE("not before the server wants to be asked, which it may put off for a day") {
  CHECK(next_after_failure(kNow, kHour, 1, 500, 1) == kNow + 500);
  CHECK(next_after_failure(kNow, kHour, 1, 1, 1) == kNow + 30);
  CHECK(next_after_failure(kNow, kHour, 1, 86'401, 1) == kNow + 86'400);
  CHECK(next_after_failure(kNow, kHour, 1, UINT64_MAX, 1) == kNow + 86'400);
}

TEST_CASE("a time on disk that no clock of this machine can have meant") {
  FetchState state;
  CHECK(next_of(state, kNow, kHour) == kNow);
  state.next_at = kNow - 5;
  CHECK(next_of(state, kNow, kHour) == kNow);
  state.next_at = kNow + 86'400;
  CHECK(next_of(state, kNow, kHour) == kNow + 86'400);
  state.next_at = kNow + 86'401;
  CHECK(next_of(state, kNow, kHour) == kNow);
  CHECK(next_of(state, kNow, 86'400) == kNow + 86'401);
}

TEST_CASE("a state is read as it was written") {
  for (const FetchState& state : {FetchState(), some_state()}) {
    const auto read = read_fetch_state(write_fetch_state(state));
    REQUIRE(read);
    CHECK(*read == state);
  }
  FetchState lines = some_state();
  lines.error = "a\nb\r\x7f";
  const auto read = read_fetch_state(write_fetch_state(lines));
  REQUIRE(read);
  CHECK(read->error == "a?b??");
}

TEST_CASE("a damaged state is refused, wherever it is") {
  const std::string whole = write_fetch_state(some_state());
  for (size_t length = 0; length < whole.size(); length++) {
    INFO(length);
    CHECK_FALSE(read_fetch_state(whole.substr(0, length)));
  }
  for (size_t at = 0; at < whole.size(); at++) {
    std::string other = whole;
    other[at] = static_cast<char>(other[at] ^ 1);
    INFO(at);
    CHECK_FALSE(read_fetch_state(other));
  }
  CHECK_FALSE(read_fetch_state(whole + "more"));
  CHECK_FALSE(read_fetch_state(whole + whole));
  CHECK_FALSE(read_fetch_state(std::string(1 << 16, '\n')));
}

TEST_CASE("user and password are not shown") {
  CHECK(shown_url("https://user:pass@example.net/a@b?c=d@e") == "https://example.net/a@b?c=d@e");
  CHECK(shown_url("https://user:p@ss@example.net") == "https://example.net");
  CHECK(shown_url("https://example.net/a") == "https://example.net/a");
  CHECK(shown_url("user:pass@proxy:3128") == "proxy:3128");
  CHECK(shown_url("") == "");
}

TEST_CASE("each list and url has a file of its own") {
  const std::string path = fetched_path("/state", "a", "https://example.net/1");
  CHECK(path.starts_with("/state/feeds/a-"));
  CHECK(path.ends_with(".feed"));
  CHECK(path != fetched_path("/state", "a", "https://example.net/2"));
  CHECK(path != fetched_path("/state", "b", "https://example.net/1"));
  CHECK(fetched_path("/state", "..", "https://example.net/1").starts_with("/state/feeds/..-"));
}
