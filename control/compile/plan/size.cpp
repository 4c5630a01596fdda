#include "control/compile/plan/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "control/compile/plan/fit.h"
#include "control/compile/plan/gates.h"
#include "control/policy/model/policy.h"
#include "filter/build/builder.h"
#include "filter/build/sizing.h"
#include "filter/format/buckets.h"
#include "filter/layouts/layout.h"

namespace weir::control {
namespace {

constexpr double kHealthSigmas = 8;  // chance alone exceeds them in fewer than one page in 10^14

uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Header, list table, and the sets and rules of one list: everything but the shape's own sections.
uint64_t fixed_bytes() {
  constexpr uint64_t kItems = 2;  // the empty one, and one
  return round_up(sizeof(weir_snapshot_header), WEIR_PAGE_BYTES) + round_up(sizeof(weir_list), WEIR_PAGE_BYTES) +
         round_up(kItems * sizeof(weir_set), WEIR_PAGE_BYTES) + round_up(kItems * sizeof(weir_rule), WEIR_PAGE_BYTES) +
         round_up(sizeof(weir_residual), WEIR_PAGE_BYTES);
}

KeysPerPage keys_per_page(uint64_t keys, uint32_t lines) {
  const double pages = std::max(1.0, static_cast<double>(lines) / WEIR_LINES_PER_PAGE);
  const double mean = static_cast<double>(keys) / pages;
  const double off = kHealthSigmas * std::sqrt(mean);
  return {mean, std::max(0.0, mean - off), mean + off};
}

// Digits, with blanks of the kinds that people put between them taken out; at most one point and one exponent.
std::string without_separators(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); i++) {
    const auto is_digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    const bool separates = (text[i] == '_' || text[i] == ',') && i > 0 && is_digit(i - 1) && is_digit(i + 1);
    if (!separates) digits += text[i];
  }
  return digits;
}

// The whole text as a number; nothing when it is not one, or not finite.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Result<SizeAnswer> size_table(const SizeQuestion& question) {
  const double wanted = question.false_positive_rate;
  const weir_layout layout = question.layout.value_or(filter::layout_for_rate(wanted));
  const std::string_view name = filter::layout_of(layout).name;
  SizeAnswer answer = {};
  answer.layout = layout;
  answer.layout_why = question.layout ? "asked for" : reason_of_rate(wanted);
  answer.keys = question.keys;
  const auto size = filter::size_filter(layout, answer.keys, wanted);
  if (!size) {
    return Error{
        layout == WEIR_LAYOUT_RIBBON && wanted < kLeastRibbonRate
            ? fmt::format("ribbon cannot keep a false-positive rate of {}: its lowest is 0.00391", wanted)
            : fmt::format("no {} filter keeps {} keys at a false-positive rate of {}", name, answer.keys, wanted)};
  }
  const uint32_t buckets = filter::exact_buckets(answer.keys, filter::slots_per_bucket(question.shape),
                                                 filter::buckets_per_page(question.shape));
  answer.k = size->k;
  answer.filter_bytes = uint64_t{size->lines} * WEIR_LINE_BYTES;
  answer.exact_bytes = filter::exact_stage_bytes(question.shape, buckets);
  answer.bits_per_key = static_cast<double>(answer.filter_bytes) * 8 / static_cast<double>(answer.keys);
  answer.gate_bytes = static_cast<uint64_t>(usual_gate_bytes(question.shape.family, layout, answer.keys));
  answer.total_bytes = fixed_bytes() + round_up(answer.filter_bytes, WEIR_PAGE_BYTES) +
                       round_up(answer.exact_bytes, WEIR_PAGE_BYTES) + round_up(answer.gate_bytes, WEIR_PAGE_BYTES);
  answer.huge_pages = round_up(answer.total_bytes, kHugePageBytes) / kHugePageBytes;
  answer.per_page = keys_per_page(answer.keys, size->lines);
  answer.rate = filter::layout_fpr(layout, answer.keys, size->lines, size->k);
  return answer;
}

Result<uint64_t> parse_count(std::string_view text, uint64_t most) {
  const std::string whole(text);
  std::string digits = without_separators(text);
  double unit = 1;
  if (!digits.empty()) {
    const char last = digits.back();
    unit = last == 'k' || last == 'K' ? 1e3 : last == 'M' ? 1e6 : last == 'G' ? 1e9 : 1;
    if (unit != 1) digits.pop_back();
  }
  const std::optional<double> value = number_of(digits);
  if (!value || *value < 0) {
    return Error{"`" + whole + "` is not a count: write it as 20M, 1.5k, 2e7 or 1_000_000 (k, M, G: thousands)"};
  }
  const double count = *value * unit;
  if (count > static_cast<double>(most)) {
    return Error{
        fmt::format("`{}` is more than one table can hold: at most {}; split it over several shapes", whole, most)};
  }
  const double rounded = std::round(count);
  if (std::abs(count - rounded) > 1e-6) return Error{"`" + whole + "` is not a whole number: " + std::to_string(count)};
  if (rounded < 1) return Error{"`" + whole + "` keys need no table: write 1 or more"};
  return static_cast<uint64_t>(rounded);
}

Result<double> parse_rate(std::string_view text) {
  const std::string whole(text);
  if (!text.empty() && text.back() == '%') {
    const std::optional<double> percent = number_of(text.substr(0, text.find_last_not_of(" %") + 1));
    return Error{"`" + whole + "` is in percent: write " + (percent ? fmt::format("{:g}", *percent / 100) : "0.005")};
  }
  const std::optional<double> rate = number_of(text);
  if (!rate) return Error{"`" + whole + "` is not a rate: write it as 0.005 or 1e-4"};
  if (*rate < kLeastRate || *rate > kMostRate) {
    return Error{fmt::format("`{}` is not between {} and {}: a usual rate is 0.005", whole, kLeastRate, kMostRate)};
  }
  return *rate;
}

}  // namespace weir::control
