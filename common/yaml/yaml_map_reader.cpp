#include <algorithm>
#include <cassert>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "common/nearest.h"
#include "common/printable.h"
#include "common/yaml/yaml.h"

namespace weir::yaml {
namespace {

constexpr const char* kMapHint = "write one `key: value` a line, further to the right, or {key: value, key: value}";

const char* kind_name(const Node& node) {
  switch (node.kind) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return "a text";
    case Kind::sequence:
      return "a sequence";
    case Kind::map:
      return "a map";
  }
  return "";
}

// "did you mean `action`?" for a typing mistake (two letters, or a third of a long word), else every name there is.
template <class Names>
std::string name_hint(const std::string& wrong, const Names& names, const char* all) {
  std::vector<std::string_view> all_names;
  std::string listed;
  for (const auto& name : names) {
    all_names.emplace_back(name);
    listed += (listed.empty() ? "" : ", ") + std::string(name);
  }
  const std::string_view nearest = nearest_name(wrong, all_names);
  if (!nearest.empty()) return "did you mean `" + std::string(nearest) + "`?";
  return listed.empty() ? "" : all + listed;
}

// The value as errors show it: quotes when it has them, shortened.
std::string shown(const Node& node) {
  constexpr size_t kShown = 80;
  const std::string text = node.text.size() > kShown ? shortened(node.text, kShown) + "..." : node.text;
  return node.quoted ? "\"" + text + "\"" : "`" + text + "`";
}

// 1024^0 .. 1024^4 by their suffix; 0 = unknown.
uint64_t unit_bytes(std::string_view unit) {
  constexpr std::string_view kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  for (size_t i = 0; i < std::size(kUnits); i++) {
    if (unit == kUnits[i]) return uint64_t{1} << (10 * i);
  }
  return 0;
}

uint64_t unit_seconds(std::string_view unit) {
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 3600;
  return unit == "d" ? 86400 : 0;
}

}  // namespace

std::vector<std::string_view> words_of(std::string_view choices) {
  constexpr std::string_view kBetween = " | ";
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const size_t end = std::min(choices.find(kBetween), choices.size());
    words.push_back(choices.substr(0, end));
    choices.remove_prefix(std::min(end + kBetween.size(), choices.size()));
  }
  return words;
}

std::string size_text(uint64_t bytes) {
  constexpr const char* kUnits[] = {"", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (unit + 1 < std::size(kUnits) && bytes != 0 && bytes % 1024 == 0) bytes /= 1024, unit++;
  return std::to_string(bytes) + kUnits[unit];
}

std::string time_text(uint64_t seconds) {
  for (const char* unit : {"d", "h", "m"}) {
    if (seconds % unit_seconds(unit) == 0) return std::to_string(seconds / unit_seconds(unit)) + unit;
  }
  return std::to_string(seconds) + "s";
}

std::string number_text(double value) {
  char text[32];
  snprintf(text, sizeof text, "%g", value);
  return text;
}

MapReader::MapReader(const Document& document, const Node* node, const Section& section, Diagnostics& diagnostics)
    : document_(document), node_(node), section_(section), diagnostics_(diagnostics), asked_(section.keys.size()) {
  if (node_ == nullptr || node_->kind == Kind::map) return;
  error(*node_, std::string(section.what) + " must be a map of `key: value` lines, not " + kind_name(*node_), kMapHint);
  node_ = nullptr;
}

const Key& MapReader::ask(std::string_view key, unsigned forms) {
  const auto row =
      std::find_if(section_.keys.begin(), section_.keys.end(), [&](const Key& k) { return k.name == key; });
  assert(row != section_.keys.end() && "a key that has no row");
  assert(row->may_be(forms) && "the row says that it is something else");
  asked_[static_cast<size_t>(row - section_.keys.begin())] = true;
  return *row;
}

const Node* MapReader::value_of(std::string_view key) const {
  if (node_ == nullptr) return nullptr;
  for (const auto& [name, value] : node_->members) {
    if (name.text == key) return value.kind == Kind::null ? nullptr : &value;
  }
  return nullptr;
}

void MapReader::error(const Node& at, std::string message, std::string hint) {
  diagnostics_.add(
      {Severity::error, document_.where(at), std::move(message), document_.source_line(at.line), std::move(hint)});
}

void MapReader::warning(const Node& at, std::string message, std::string hint) {
  diagnostics_.add(
      {Severity::warning, document_.where(at), std::move(message), document_.source_line(at.line), std::move(hint)});
}

const Node* MapReader::find(std::string_view key) {
  ask(key, ~0u);
  return value_of(key);
}

const Node* MapReader::require(std::string_view key) {
  const Node* found = find(key);
  if (found == nullptr && node_ != nullptr) {
    error(*node_, std::string(section_.what) + " has no `" + std::string(key) + "`",
          "add a line `" + std::string(key) + ": ...`");
  }
  return found;
}

std::optional<std::string> MapReader::text(std::string_view key) {
  const Node* found = find(key);
  if (found == nullptr) return std::nullopt;
  if (found->kind == Kind::scalar) return found->text;
  error(*found, "`" + std::string(key) + "` must be a text, not " + kind_name(*found),
        "write one value, without [ ] or { }");
  return std::nullopt;
}

std::optional<bool> MapReader::boolean(std::string_view key) {
  ask(key, kBoolean);
  const Node* found = find(key);
  if (found == nullptr || !text(key)) return std::nullopt;
  if (found->text == "true") return true;
  if (found->text == "false") return false;
  error(*found, "`" + std::string(key) + "` is " + shown(*found) + ": it must be true or false", "write true or false");
  return std::nullopt;
}

std::optional<uint64_t> MapReader::integer(std::string_view key) {
  const Key& row = ask(key, kInteger);
  const Node* found = find(key);
  if (found == nullptr || !text(key)) return std::nullopt;
  const std::string& digits = found->text;
  for (std::string_view word : words_of(row.choices)) {
    if (digits == word) return std::nullopt;
  }
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool leading_zero = digits.size() > 1 && digits[0] == '0';
  const bool whole = end == digits.data() + digits.size() && !digits.empty() && !leading_zero;
  if (whole && failure == std::errc{} && value >= row.least && value <= row.most) return value;
  error(*found,
        "`" + std::string(key) + "` is " + shown(*found) + ": it must be a whole number from " +
            std::to_string(row.least) + " to " + std::to_string(row.most),
        "write it in decimal, without a unit");
  return std::nullopt;
}

std::optional<double> MapReader::number(std::string_view key) {
  const Key& row = ask(key, kNumber);
  const Node* found = find(key);
  if (found == nullptr || !text(key)) return std::nullopt;
  if (!row.unit.empty()) return number_with_unit(row, *found);
  // Decimal notation only: strtod would also take hexadecimal, inf and nan.
  const bool decimal = !found->text.empty() && found->text.find_first_not_of("0123456789.eE+-") == std::string::npos;
  char* end = nullptr;
  const double value = strtod(found->text.c_str(), &end);
  if (decimal && *end == '\0' && value >= row.low && value <= row.high) return value;
  error(*found,
        "`" + std::string(key) + "` is " + shown(*found) + ": it must be a number from " + number_text(row.low) +
            " to " + number_text(row.high),
        "write it in decimal, without a unit");
  return std::nullopt;
}

std::optional<double> MapReader::number_with_unit(const Key& row, const Node& found) {
  const std::string& written = found.text;
  double value = 0;
  const auto [end, failure] =
      std::from_chars(written.data(), written.data() + written.size(), value, std::chars_format::fixed);
  const bool has_unit = std::string_view(end, static_cast<size_t>(written.data() + written.size() - end)) == row.unit;
  if (failure == std::errc{} && has_unit && value >= row.low && value <= row.high) return value;
  const auto with_unit = [&](double number) { return number_text(number) + std::string(row.unit); };
  error(found,
        "`" + std::string(row.name) + "` is " + shown(found) + ": it must be from " + with_unit(row.low) + " to " +
            with_unit(row.high),
        "write a number and its unit, without blanks, as in " + with_unit(std::max(row.low, 50.0)));
  return std::nullopt;
}

std::optional<uint64_t> MapReader::size_bytes(std::string_view key) {
  const Key& row = ask(key, kSize);
  const Node* found = find(key);
  if (found == nullptr || !text(key)) return std::nullopt;
  const std::string& written = found->text;
  const char* last = written.data() + written.size();
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(written.data(), last, value);
  const uint64_t unit = unit_bytes({end, static_cast<size_t>(last - end)});
  const bool fits = failure == std::errc{} && unit != 0 && value <= std::numeric_limits<uint64_t>::max() / unit;
  if (fits && value * unit >= row.least && value * unit <= row.most) return value * unit;
  error(*found,
        "`" + std::string(key) + "` is " + shown(*found) + ": it must be a size from " + size_text(row.least) + " to " +
            size_text(row.most),
        "write a whole number of bytes, KiB, MiB, GiB or TiB, without blanks, as in 512MiB");
  return std::nullopt;
}

std::optional<uint64_t> MapReader::seconds(std::string_view key) {
  const Key& row = ask(key, kTime);
  const auto written = text(key);
  if (!written) return std::nullopt;
  const char* last = written->data() + written->size();
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(written->data(), last, value);
  const uint64_t unit = unit_seconds({end, static_cast<size_t>(last - end)});
  const bool fits = failure == std::errc{} && unit != 0 && value <= row.most / unit && value * unit >= row.least;
  if (fits) return value * unit;
  error(*find(key),
        "`" + std::string(key) + "` is `" + *written + "`: it must be a time from " + time_text(row.least) + " to " +
            time_text(row.most),
        "write a whole number of s, m, h or d, without blanks, as in 1h");
  return std::nullopt;
}

std::optional<uint64_t> MapReader::whole(std::string_view key) {
  const Key& row = ask(key, kInteger | kSize | kTime);
  if (row.may_be(kSize)) return size_bytes(key);
  return row.may_be(kTime) ? seconds(key) : integer(key);
}

std::optional<size_t> MapReader::choice(std::string_view key) {
  const Key& row = ask(key, kChoice);
  const Node* found = find(key);
  if (found == nullptr || !text(key)) return std::nullopt;
  const std::vector<std::string_view> names = words_of(row.choices);
  const auto known = std::find(names.begin(), names.end(), found->text);
  if (known != names.end()) return static_cast<size_t>(known - names.begin());
  std::string listed;
  for (const std::string_view& name : names) {
    if (!listed.empty()) listed += &name == &names.back() ? " or " : ", ";
    listed += name;
  }
  error(*found, "`" + std::string(key) + "` is " + shown(*found) + ": it must be " + listed,
        name_hint(found->text, names, "choose one of: "));
  return std::nullopt;
}

const Node* MapReader::sequence(std::string_view key) {
  ask(key, kSequence);
  const Node* found = find(key);
  if (found == nullptr || found->kind == Kind::sequence) return found;
  error(*found, "`" + std::string(key) + "` must be a sequence, not " + kind_name(*found),
        "write " + std::string(key) + ": [first, second], or one `- value` a line");
  return nullptr;
}

const Node* MapReader::map(std::string_view key) {
  ask(key, kMap);
  const Node* found = find(key);
  if (found == nullptr || found->kind == Kind::map) return found;
  error(*found, "`" + std::string(key) + "` must be a map of `key: value` lines, not " + kind_name(*found), kMapHint);
  return nullptr;
}

MapReader MapReader::section(std::string_view key) {
  return {document_, map(key), *ask(key, kMap).section, diagnostics_};
}

MapReader MapReader::item(std::string_view key, const Node& node) {
  return {document_, &node, *ask(key, kSequence).item->section, diagnostics_};
}

void MapReader::finish() {
  std::vector<std::string_view> known;
  for (size_t i = 0; i < section_.keys.size(); i++) {
    const Key& row = section_.keys[i];
    assert((asked_[i] || row.may_be(kLater)) && "a row that nobody reads");
    if (!row.may_be(kLater)) known.push_back(row.name);
  }
  if (node_ == nullptr) return;
  for (const auto& [name, value] : node_->members) {
    const auto row = std::find_if(section_.keys.begin(), section_.keys.end(),
                                  [&, &key = name](const Key& k) { return k.name == key.text; });
    if (row == section_.keys.end()) {
      error(name, "unknown key " + shown(name) + " in " + std::string(section_.what),
            name_hint(name.text, known, "known keys: "));
    } else if (row->may_be(kLater)) {
      error(name, name.text + ": not supported yet", "take it out: this version cannot do it");
    }
  }
}

}  // namespace weir::yaml
