#include "control/policy/read/no_entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "common/ip.h"

namespace weir::control {
namespace {

constexpr const char* kMayBeEmpty = "`guard: {min_entries: 0}` lets it be empty";
// A number that may be an address: 1.0.0.0 and above.
constexpr uint64_t kLeastAddress = 1 << 24, kMostAddress = 0xffff'ffff;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A number that stands alone, as `3405803776` in `"3405803776","3405804031"`, and may mean an IPv4 address.
std::optional<Ipv4> decimal_address(std::string_view text) {
  constexpr std::string_view kOfAddresses = ".:/";
  for (size_t begin = 0; begin < text.size(); begin++) {
    if (!is_digit(text[begin])) continue;
    size_t end = begin;
    while (end < text.size() && is_digit(text[end])) end++;
    const auto joins = [&](size_t at) {
      return at < text.size() && (kOfAddresses.find(text[at]) != std::string_view::npos || isalpha(text[at]) != 0);
    };
    uint64_t number = 0;
    const bool is_number = std::from_chars(text.data() + begin, text.data() + end, number).ec == std::errc();
    const bool is_alone = !joins(end) && (begin == 0 || !joins(begin - 1));
    if (is_number && is_alone && number >= kLeastAddress && number <= kMostAddress) return static_cast<Ipv4>(number);
    begin = end;
  }
  return std::nullopt;
}

const LineSample* first_of(const FeedReport& feed, LineSample::Kind kind) {
  const auto found = std::find_if(feed.samples.begin(), feed.samples.end(),
                                  [&](const LineSample& sample) { return sample.kind == kind; });
  return found == feed.samples.end() ? nullptr : &*found;
}

std::string with_s(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string counts_of(const FeedReport& feed) {
  std::string text = with_s(feed.lines, "line");
  const auto add = [&](uint64_t n, const char* what, LineSample::Kind kind) {
    if (n == 0) return;
    const LineSample* first = first_of(feed, kind);
    text += fmt::format(", {} {}{}", n, what, first == nullptr ? "" : ", the first on " + sample_text(*first));
  };
  add(feed.bad, "bad", LineSample::bad);
  add(feed.skipped, "skipped", LineSample::skipped);
  return text;
}

// The line of a policy that would read it, by what it was read as and what it looks like.
std::string way_out(const FeedReport& feed, const std::string& looks_like) {
  if (feed.format == "json" || feed.format == "jsonl") {
    return fmt::format(
        "name the key of the addresses, or the path of their list: `format: {{{0}: {{address: KEY}}}}`, `format: "
        "{{{0}: "
        "{{path: KEY.KEY}}}}`",
        feed.format);
  }
  if (looks_like.starts_with('{')) return "name the key of the addresses: `format: {jsonl: {address: KEY}}`";
  constexpr std::pair<char, const char*> kSeparators[] = {
      {',', "comma"}, {';', "semicolon"}, {'\t', "tab"}, {'|', "pipe"}};
  for (const auto& [separator, name] : kSeparators) {
    if (looks_like.find(separator) == std::string::npos) continue;
    return fmt::format("name the column of the addresses: `format: {{csv: {{address: 1, separator: {}}}}}`", name);
  }
  if (feed.format == "csv") return "name the column of the addresses: `format: {csv: {address: COLUMN}}`";
  if (looks_like.empty()) return "look at the file: is it a list of addresses?";
  return "name its format, as in `format: csv` (`controlctl formats` lists them)";
}

}  // namespace

FeedNote is_empty() {
  return {"is empty", fmt::format("look at the file: is it a list of addresses? {}", kMayBeEmpty)};
}

FeedNote no_entries(const FeedReport& feed) {
  const LineSample* sample = first_of(feed, LineSample::bad);
  if (sample == nullptr) sample = first_of(feed, LineSample::skipped);
  const std::string looks_like = sample == nullptr ? "" : sample->text;
  const bool is_elsewhere = feed.bad == 0 && (feed.format == "json" || feed.format == "jsonl");
  const char* none = is_elsewhere ? "holds no entries where weir looks for them" : "holds no entries";
  std::string reason = fmt::format("{} (read as {}{}; {})", none, feed.format.empty() ? "plain" : feed.format,
                                   feed.why.empty() ? "" : ": " + feed.why, counts_of(feed));
  if (const auto address = decimal_address(looks_like)) {
    reason += fmt::format("; decimal numbers are not read as addresses: {} may mean {}", *address, to_string(*address));
    return {std::move(reason),
            fmt::format("write addresses with dots, as in {}; {}", to_string(*address), kMayBeEmpty)};
  }
  return {std::move(reason), way_out(feed, looks_like) + "; " + kMayBeEmpty};
}

std::string sample_text(const LineSample& sample) {
  return fmt::format("line {}: {}{}", sample.line, sample.reason, sample.text.empty() ? "" : ": " + sample.text);
}

}  // namespace weir::control
