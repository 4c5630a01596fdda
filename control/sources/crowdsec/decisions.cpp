#include "control/sources/crowdsec/decisions.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/ip.h"
#include "common/printable.h"
#include "control/base/json/json.h"
#include "control/policy/model/range_text.h"

namespace weir::control::crowdsec {
namespace {

constexpr size_t kMostComment = 200;  // bytes

struct Stream {
  std::optional<std::vector<Decision>> added, deleted;
};

void members(Fields& f, Stream& stream) {
  f.maybe_array({"new", "", "decisions that are new; null: none"}, stream.added, "decision");
  f.maybe_array({"deleted", "", "those that ended or were deleted; null: none"}, stream.deleted, "decision");
}

struct Unit {
  std::string_view name;
  double ms;
};
// Longer names first. Both ways of writing micro are Go's.
constexpr Unit kUnits[] = {{"ns", 1e-6}, {"us", 1e-3}, {"\xc2\xb5s", 1e-3}, {"\xce\xbcs", 1e-3},
                           {"ms", 1},    {"s", 1000},  {"m", 60'000},       {"h", 3'600'000}};

// The number at the begin, as digits with a point. Empty: there is none.
std::optional<double> take_number(std::string_view& text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + end, number, std::chars_format::fixed);
  if (read.ec == std::errc::invalid_argument || read.ptr != text.data() + end) return std::nullopt;
  if (read.ec == std::errc::result_out_of_range) number = static_cast<double>(kMostMs);
  text.remove_prefix(end);
  return number;
}

template <class Addr>
std::string prefix_text(Addr address, unsigned prefix_bits) {
  const Addr mask = prefix_mask<Addr>(prefix_bits), first = address & mask;
  return range_text(first, static_cast<Addr>(first | static_cast<Addr>(~mask)), 0);
}

}  // namespace

void members(Fields& f, Decision& decision) {
  f({"id", "", "of the decision"}, decision.id);
  f({"scope", "", "what its value is"}, decision.scope);
  f({"value", "", "whom it is about"}, decision.value);
  f({"type", "", "what is to be done"}, decision.type);
  f({"duration", "", "that is left"}, decision.duration);
  f.unless_empty({"origin", "", "who decided"}, decision.origin);
  f.unless_empty({"scenario", "", "why"}, decision.scenario);
}

Result<Decisions> read_decisions(std::string_view json) {
  const Result<Document> document = Document::parse(json);
  if (!document) return Error{document.error()};
  if (!document->contains("new") && !document->contains("deleted")) return Error{"it tells of no decisions"};
  Result<Stream> stream = read_json<Stream>(*document);
  if (!stream) return Error{stream.error()};
  return Decisions{std::move(stream->added).value_or(std::vector<Decision>()),
                   std::move(stream->deleted).value_or(std::vector<Decision>())};
}

std::optional<int64_t> duration_ms(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return 0;
  if (text.empty()) return std::nullopt;
  double ms = 0;
  while (!text.empty()) {
    const std::optional<double> number = take_number(text);
    if (!number) return std::nullopt;
    const Unit* found = nullptr;
    for (const Unit& unit : kUnits) {
      if (found == nullptr && text.starts_with(unit.name)) found = &unit;
    }
    if (found == nullptr) return std::nullopt;
    text.remove_prefix(found->name.size());
    ms += *number * found->ms;
  }
  const int64_t whole = ms < static_cast<double>(kMostMs) ? static_cast<int64_t>(ms) : kMostMs;
  return is_negative ? -whole : whole;
}

std::optional<std::string> entry_of(std::string_view value) {
  const size_t slash = std::min(value.find('/'), value.size());
  const std::string_view address = value.substr(0, slash);
  const std::optional<Ipv4> v4 = parse_ipv4(address);
  const std::optional<Ipv6> v6 = parse_ipv6(address);
  if (!v4 && !v6) return std::nullopt;
  const unsigned most = v4 ? kAddrBits<Ipv4> : kAddrBits<Ipv6>;
  unsigned bits = most;
  if (slash != value.size()) {
    const char* end = value.data() + value.size();
    const auto read = std::from_chars(value.data() + slash + 1, end, bits);
    if (read.ec != std::errc() || read.ptr != end || bits > most) return std::nullopt;
  }
  if (bits < (v4 ? kWidestV4 : kWidestV6)) return std::nullopt;
  if (v4) return prefix_text(*v4, bits);
  constexpr unsigned kMapped = kAddrBits<Ipv6> - kAddrBits<Ipv4>;
  if (!is_ipv4_mapped(*v6)) return prefix_text(*v6, bits);
  if (bits < kMapped + kWidestV4) return std::nullopt;
  return prefix_text(static_cast<Ipv4>(*v6), bits - kMapped);
}

std::string comment_of(const Decision& decision) {
  std::string text(kCommentBegin);
  text += decision.scenario.empty() ? "no scenario" : decision.scenario;
  if (!decision.origin.empty()) text += " (" + decision.origin + ")";
  return text.size() > kMostComment ? shortened(text, kMostComment - 3) + "..." : text;
}

}  // namespace weir::control::crowdsec
