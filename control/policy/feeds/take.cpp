#include "control/policy/feeds/take.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "control/policy/feeds/format.h"
#include "control/policy/model/range_text.h"

namespace weir::control::feeds {
namespace {

constexpr const char* kAnyRefused = "matches every address: needs allow_any";
constexpr size_t kMostPieces = 512;  // of a text that is put together; no entry is longer
constexpr size_t kShown = 80;        // of a line, in a sample

bool has_room(const FeedReport& report, LineSample::Kind kind) {
  const auto is_of_kind = [&](const LineSample& sample) { return sample.kind == kind; };
  const auto kept = std::count_if(report.samples.begin(), report.samples.end(), is_of_kind);
  return static_cast<size_t>(kept) < kSamplesOfAKind;
}

// whole(): the text.
template <class Addr, class Whole>
const char* append(const ParsedEntry<Addr>& parsed, Whole whole, At at, const Options& options, FeedReport& report,
                   std::vector<Entry<Addr>>& entries) {
  if (parsed.is_any && !options.allow_any) return kAnyRefused;
  if (parsed.host_bits_cleared) {
    report.host_bits++;
    if (has_room(report, LineSample::host_bits)) {
      const std::string meant = range_text(parsed.first, parsed.last, 0);
      keep_sample(report,
                  {at.line, shortened(whole(), kShown), "has host bits, read as " + meant, LineSample::host_bits});
    }
  }
  Entry<Addr>& entry = entries.emplace_back(parsed);
  entry.line = at.line;
  entry.directions = options.directions;
  entry.source = options.source;
  entry.expires = at.expires;
  return nullptr;
}

template <class Whole>
const char* append(const EntryText& parsed, Whole whole, At at, const Options& options, ListDraft& list) {
  if (const auto* v4 = std::get_if<ParsedEntry<Ipv4>>(&parsed))
    return append(*v4, whole, at, options, list.feed, list.v4);
  if (const auto* v6 = std::get_if<ParsedEntry<Ipv6>>(&parsed))
    return append(*v6, whole, at, options, list.feed, list.v6);
  return std::get<EntryError>(parsed).reason;
}

// Appends an entry that was given in parts. whole() makes the text that they stand for: its parser gives the reason if
// they make no entry.
template <class Whole>
const char* append_parts(const EntryText& parsed, Whole whole, At at, const Options& options, ListDraft& list) {
  if (std::holds_alternative<EntryError>(parsed)) return take(whole(), at, options, list);
  return append(parsed, whole, at, options, list);
}

// 001.002.003.004 -> 1.2.3.4; whatever has no dots stays as it is.
std::string without_padding(std::string_view text) {
  std::string all;
  for (size_t i = 0; i < text.size(); i++) {
    const bool begins = i == 0 || text[i - 1] == '.';
    size_t skip = 0;
    while (begins && skip < 2 && i + 1 < text.size() && text[i] == '0' && text[i + 1] >= '0' && text[i + 1] <= '9') {
      i++;
      skip++;
    }
    all += text[i];
  }
  return all;
}

}  // namespace

void keep_sample(FeedReport& report, LineSample sample) {
  if (has_room(report, sample.kind)) report.samples.push_back(std::move(sample));
}

void add_bad_line(FeedReport& report, uint32_t line, std::string_view text, const char* reason) {
  report.bad++;
  if (has_room(report, LineSample::bad)) keep_sample(report, {line, shortened(text, kShown), reason});
}

void add_skipped_line(FeedReport& report, uint32_t line, std::string_view text, const char* reason) {
  report.skipped++;
  if (has_room(report, LineSample::skipped))
    keep_sample(report, {line, shortened(text, kShown), reason, LineSample::skipped});
}

void add_outcome(const Outcome& outcome, FeedReport& report, uint32_t line, std::string_view text) {
  if (outcome.kind == Outcome::bad) add_bad_line(report, line, text, outcome.why);
  if (outcome.kind == Outcome::skipped) add_skipped_line(report, line, text, outcome.why);
}

const char* take(std::string_view text, At at, const Options& options, ListDraft& list) {
  const auto whole = [&] { return text; };
  return append(parse_entry(text, LeadingZeros::decimal), whole, at, options, list);
}

const char* take_port(std::string_view address, std::string_view port, At at, const Options& options, ListDraft& list) {
  if (!is_number(port)) return "the port is not a number from 1 to 65535";
  if (address.find_first_of("/-") != std::string_view::npos) return "a port needs a single address";
  if (address.size() + port.size() > kMostPieces) return "too long for an address with a port";
  const auto whole = [&] {
    const bool is_v6 = address.find(':') != std::string_view::npos;
    return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "", port);
  };
  return append_parts(parse_port(address, port, LeadingZeros::decimal), whole, at, options, list);
}

const char* take_prefix(std::string_view address, std::string_view length, At at, const Options& options,
                        ListDraft& list) {
  if (address.find_first_of("/-") != std::string_view::npos)
    return "a prefix length beside what has one, or is a range";
  if (address.size() + length.size() > kMostPieces) return "too long for a prefix";
  const auto whole = [&] { return fmt::format("{}/{}", address, length); };
  return append_parts(parse_prefix(address, length, LeadingZeros::decimal), whole, at, options, list);
}

const char* take_range(std::string_view first, std::string_view last, At at, const Options& options, ListDraft& list) {
  if (first.size() + last.size() > kMostPieces) return "too long for a range";
  const auto whole = [&] { return without_padding(first) + "-" + without_padding(last); };
  return append_parts(parse_range(first, last, LeadingZeros::decimal), whole, at, options, list);
}

const char* take_parts(const PartTexts& parts, At at, const Options& options, ListDraft& list) {
  const auto& [address, last, port, length] = parts;
  if (!last.empty()) {
    if (address.size() + last.size() > kMostPieces) return "too long for a range";
    const auto whole = [&] { return fmt::format("{}-{}", parts.address, parts.last); };
    return append_parts(parse_range(address, last), whole, at, options, list);
  }
  const auto is_host = [&] {
    return (parts.length == "32" && parse_ipv4(parts.address)) || (parts.length == "128" && parse_ipv6(parts.address));
  };
  if (!length.empty() && (port.empty() || !is_host())) {
    return take_prefix(address, length.substr(length.starts_with('/') ? 1 : 0), at, options, list);
  }
  return port.empty() ? take(address, at, options, list) : take_port(address, port, at, options, list);
}

uint32_t expires_after(uint64_t seconds, const Options& options) {
  return static_cast<uint32_t>(std::min<uint64_t>(options.written + std::min<uint64_t>(seconds, kNever), kNever));
}

std::optional<uint64_t> duration_seconds(std::string_view text) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  if (text.empty()) return std::nullopt;
  uint64_t sum = 0;
  while (!text.empty()) {
    size_t digits = 0;
    uint64_t value = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
      value = std::min(kMost, value * 10 + static_cast<uint64_t>(text[digits++] - '0'));
    }
    if (digits == 0) return std::nullopt;
    if (digits < text.size() && text[digits] == '.') {  // fractions are dropped
      while (++digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
      }
    }
    text.remove_prefix(digits);
    constexpr struct {
      std::string_view name;
      uint64_t seconds;
    } kUnits[] = {{"ms", 0}, {"us", 0}, {"ns", 0}, {"w", 604'800}, {"d", 86'400}, {"h", 3600}, {"m", 60}, {"s", 1}};
    const auto unit =
        std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& one) { return text.starts_with(one.name); });
    if (unit == std::end(kUnits)) return text.empty() ? std::optional(std::min(kMost, sum + value)) : std::nullopt;
    sum = std::min(kMost, sum + value * unit->seconds);
    text.remove_prefix(unit->name.size());
  }
  return sum;
}

std::string_view next_word(std::string_view& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  size_t length = 0;
  while (length < text.size() && !is_blank(text[length])) length++;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

bool is_entry(std::string_view text) {
  return !std::holds_alternative<EntryError>(parse_entry(text, LeadingZeros::decimal));
}

bool has_address_inside(std::string_view text) {
  constexpr std::string_view kLetters = "0123456789abcdefABCDEF.:/";
  while (true) {
    text.remove_prefix(std::min(text.find_first_of(kLetters), text.size()));
    if (text.empty()) return false;
    std::string_view word = text.substr(0, std::min(text.find_first_not_of(kLetters), text.size()));
    text.remove_prefix(word.size());
    while (!word.empty() && (word.front() == ':' || word.front() == '/' || word.front() == '.') &&
           !word.starts_with("::")) {
      word.remove_prefix(1);
    }
    while (!word.empty() && (word.back() == ':' || word.back() == '/' || word.back() == '.') && !word.ends_with("::")) {
      word.remove_suffix(1);
    }
    const size_t letters = word.find_first_of("0123456789");
    if (word.size() > 3 && letters != std::string_view::npos && is_entry(word)) return true;
  }
}

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_length(std::string_view text) {
  if (text.starts_with('/')) text.remove_prefix(1);
  return is_number(text) && text.size() <= 3;
}

std::string lower(std::string_view text) {
  std::string all(text);
  for (char& c : all) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return all;
}

std::string recognise_lines(std::string_view beginning, bool (*is_like)(std::string_view line), const char* phrase,
                            bool (*decides)(std::string_view line), unsigned most_lines) {
  const bool is_all = beginning.size() < kBeginningBytes;
  unsigned asked = 0, alike = 0, plain = 0, first = 0, number = 0;
  while (!beginning.empty() && asked < most_lines) {
    const bool is_whole = beginning.find('\n') != std::string_view::npos;
    const std::string_view line = trim(next_line(beginning));
    number++;
    if (line.empty() || line[0] == '#' || line[0] == ';' || (!is_whole && !is_all && asked > 0)) continue;
    asked++;
    if (decides != nullptr && decides(line)) return fmt::format("line {} {}", number, phrase);
    if (is_plain_entry(line)) {
      plain++;
    } else if (is_like(line)) {
      if (alike++ == 0) first = number;
    }
  }
  return alike > plain ? fmt::format("line {} {}", first, phrase) : "";
}

}  // namespace weir::control::feeds
