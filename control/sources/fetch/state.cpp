#include "control/sources/fetch/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "common/digest.h"

namespace weir::control {

namespace {

constexpr std::string_view kHeading = "weir fetch state 1\n";
constexpr std::string_view kDigest = "digest ";

std::string digest_text(std::string_view text) {
  const Digest digest = digest_of(std::as_bytes(std::span(text)));
  return fmt::format("{:016x}{:016x}", digest[1], digest[0]);
}

// Writer and reader name the same members in the same order.
template <class Io, class State>
void visit(Io& io, State& state) {
  io("url", state.url);
  io("etag", state.etag);
  io("last_modified", state.last_modified);
  io("tried_at", state.tried_at);
  io("fetched_at", state.fetched_at);
  io("changed_at", state.changed_at);
  io("next_at", state.next_at);
  io("bytes", state.bytes);
  io("failures", state.failures);
  io("error", state.error);
}

struct Writer {
  std::string text{kHeading};
  void operator()(const char* key, const std::string& value) {
    text += key;
    text += ' ';
    for (const char c : value) text += c >= ' ' && c != '\x7f' ? c : '?';  // a value is one line
    text += '\n';
  }
  template <class Number>
  void operator()(const char* key, Number value) {
    (*this)(key, fmt::to_string(value));
  }
};

struct Reader {
  std::string_view rest;
  std::string error;

  std::string_view take(std::string_view key) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos || rest.substr(0, key.size()) != key || rest.substr(key.size(), 1) != " ") {
      if (error.empty()) error = fmt::format("`{}` is not where it should be", key);
      return {};
    }
    const std::string_view value = rest.substr(key.size() + 1, end - key.size() - 1);
    rest.remove_prefix(end + 1);
    return value;
  }
  void operator()(std::string_view key, std::string& value) { value = take(key); }
  template <class Number>
  void operator()(std::string_view key, Number& value) {
    const std::string_view text = take(key);
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = failure == std::errc{} && end == text.data() + text.size();
    if ((!is_number || value < Number{}) && error.empty()) error = fmt::format("`{}` is no number", key);
  }
};

}  // namespace

std::string write_fetch_state(const FetchState& state) {
  Writer writer;
  visit(writer, state);
  return with_digest(std::move(writer.text));
}

std::string with_digest(std::string text) {
  const std::string digest = digest_text(text);
  return text.append(kDigest).append(digest).append("\n");
}

Result<FetchState> read_fetch_state(std::string_view text) {
  const size_t last = text.rfind(kDigest);
  if (last == std::string_view::npos ||
      text.substr(last + kDigest.size()) != digest_text(text.substr(0, last)) + "\n") {
    return Error{"it is damaged: its digest is another one"};
  }
  Reader reader{text.substr(0, last), ""};
  if (!text.starts_with(kHeading)) return Error{"it is of another version of this program"};
  reader.rest.remove_prefix(kHeading.size());
  FetchState state;
  visit(reader, state);
  if (reader.error.empty() && !reader.rest.empty()) reader.error = "it goes on after its last line";
  if (!reader.error.empty()) return Error{"it is damaged: " + reader.error};
  return state;
}

namespace {

constexpr double kJitter = 0.1;
constexpr uint32_t kMostDoublings = 20;

int64_t longest_retry(uint64_t every_s) {
  return std::max(kMostRetry_s, static_cast<int64_t>(every_s));
}

}  // namespace

int64_t next_after_success(int64_t now, uint64_t every_s, double random) {
  const double factor = 1 - kJitter + 2 * kJitter * random;
  return now + std::max<int64_t>(1, std::llround(static_cast<double>(every_s) * factor));
}

int64_t next_after_failure(int64_t now, uint64_t every_s, uint32_t failures, uint64_t retry_after_s, double random) {
  const uint32_t doublings = std::min(std::max(failures, 1u) - 1, kMostDoublings);
  const int64_t longest = std::min(kFirstRetry_s << doublings, longest_retry(every_s));
  const int64_t wait = std::llround(static_cast<double>(longest) * (0.5 + 0.5 * random));
  const auto wanted = static_cast<int64_t>(std::min<uint64_t>(retry_after_s, kMostRetryAfter_s));
  return now + std::max(wait, wanted);
}

int64_t next_of(const FetchState& state, int64_t now, uint64_t every_s) {
  const int64_t furthest = std::max(kMostRetryAfter_s, 2 * longest_retry(every_s));
  return state.next_at > now + furthest ? now : std::max(state.next_at, now);
}

}  // namespace weir::control
