#include "control/policy/feeds/csv_text.h"

#include <algorithm>
#include <array>

#include "control/policy/feeds/take.h"

namespace weir::control::feeds::csv {
namespace {

constexpr size_t kMostColumns = 256;

}  // namespace

char separator_named(std::string_view name) {
  constexpr struct {
    std::string_view name;
    char separator;
  } kNames[] = {{"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"pipe", '|'}, {"space", ' '}};
  for (const auto& one : kNames) {
    if (one.name == name) return one.separator;
  }
  return '\0';
}

char separator_of(std::string_view row) {
  constexpr std::string_view kSeparators = ",;\t|";
  std::array<unsigned, kSeparators.size()> counts = {};
  bool in_quotes = false;
  for (const char c : row) {
    in_quotes ^= c == '"';
    const size_t which = kSeparators.find(c);
    if (!in_quotes && which != std::string_view::npos) counts[which]++;
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return kSeparators[static_cast<size_t>(most - counts.begin())];
}

bool split(std::string_view row, char separator, std::vector<std::string>& fields) {
  fields.clear();
  if (separator == ' ') row = trim(row);
  const auto is_end = [&](char c) { return c == separator || (separator == ' ' && c == '\t'); };
  size_t at = 0;
  while (true) {
    std::string field;
    while (at < row.size() && row[at] != separator && (row[at] == ' ' || row[at] == '\t')) at++;
    if (at < row.size() && row[at] == '"') {
      for (at++;; at++) {
        if (at >= row.size()) return false;
        if (row[at] != '"') {
          field += row[at];
        } else if (at + 1 < row.size() && row[at + 1] == '"') {
          field += row[at++];
        } else {
          break;
        }
      }
      at++;
    }
    const auto found = std::find_if(row.begin() + static_cast<ptrdiff_t>(at), row.end(), is_end);
    size_t end = static_cast<size_t>(found - row.begin());
    field += row.substr(at, end - at);
    if (fields.size() < kMostColumns) fields.emplace_back(trim(field));
    if (end == row.size()) return true;
    while (separator == ' ' && is_blank(row[end + 1])) end++;  // blanks in a row divide once
    at = end + 1;
  }
}

}  // namespace weir::control::feeds::csv
