#include "common/nearest.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace weir {

namespace {

// Levenshtein distance, one row at a time.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); j++) {
      const size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view nearest_name(std::string_view wrong, std::span<const std::string_view> names) {
  constexpr size_t kLongestTypo = 64;  // the distance costs length x length
  if (wrong.size() > kLongestTypo) return {};
  std::string_view nearest;
  size_t least = std::max<size_t>(wrong.size() < 4 ? 1 : 2, wrong.size() / 3) + 1;
  for (const std::string_view name : names) {
    const size_t distance = edit_distance(wrong, name);
    if (distance >= least) continue;
    least = distance;
    nearest = name;
  }
  if (!nearest.empty() || wrong.empty()) return nearest;
  const auto begins_so = [wrong](std::string_view name) { return name.starts_with(wrong); };
  const auto first = std::find_if(names.begin(), names.end(), begins_so);
  if (std::count_if(names.begin(), names.end(), begins_so) == 1) nearest = *first;
  return nearest;
}

}  // namespace weir
