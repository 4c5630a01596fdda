#include "control/sources/flowspec/values.h"

#include <algorithm>
#include <bit>

namespace weir::control::flowspec {
namespace {

ValueRanges numbers_of(const Operator& one, uint64_t most) {
  ValueRanges ranges;
  if ((one.asks & kLess) != 0 && one.value > 0) ranges.push_back({0, std::min(one.value - 1, most)});
  if ((one.asks & kEqual) != 0 && one.value <= most) ranges.push_back({one.value, one.value});
  if ((one.asks & kGreater) != 0 && one.value < most) ranges.push_back({one.value + 1, most});
  return ranges;
}

// Sorts, and joins what overlaps or touches.
ValueRanges joined(ValueRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ValueRanges apart;
  for (const ValueRange& range : ranges) {
    if (!apart.empty() && range.first <= apart.back().last + 1) {
      apart.back().last = std::max(apart.back().last, range.last);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

bool holds(const Operator& one, uint64_t bits) {
  const bool plain = (one.asks & kMatch) != 0 ? (bits & one.value) == one.value : (bits & one.value) != 0;
  return plain != ((one.asks & kInverted) != 0);
}

}  // namespace

ValueRanges common(const ValueRanges& a, const ValueRanges& b) {
  ValueRanges both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint64_t first = std::max(a[i].first, b[j].first), last = std::min(a[i].last, b[j].last);
    if (first <= last) both.push_back({first, last});
    a[i].last < b[j].last ? i++ : j++;
  }
  return both;
}

ValueRanges numbers_of(const std::vector<Operator>& operators, uint64_t most) {
  ValueRanges all;
  for (size_t i = 0; i < operators.size();) {
    ValueRanges alternative = joined(numbers_of(operators[i], most));
    for (i++; i < operators.size() && operators[i].is_and; i++) {
      alternative = common(alternative, joined(numbers_of(operators[i], most)));
    }
    all.insert(all.end(), alternative.begin(), alternative.end());
  }
  return joined(std::move(all));
}

bool holds_for_bits(const std::vector<Operator>& operators, uint64_t bits) {
  for (size_t i = 0; i < operators.size();) {
    bool alternative = holds(operators[i], bits);
    for (i++; i < operators.size() && operators[i].is_and; i++) alternative = alternative && holds(operators[i], bits);
    if (alternative) return true;
  }
  return false;
}

std::vector<BitPattern> patterns_of(const std::bitset<256>& bytes) {
  if (bytes.all()) return {{0, 0}};
  // Every pattern that takes these bytes alone, widest first; then the next one that takes most of what is left.
  std::vector<BitPattern> possible;
  for (unsigned mask = 1; mask < 256; mask++) {
    for (unsigned set = mask;; set = (set - 1) & mask) {
      bool is_inside = true;
      const unsigned free = ~mask & 0xff;
      for (unsigned rest = free; is_inside; rest = (rest - 1) & free) {
        is_inside = bytes[set | rest];
        if (rest == 0) break;
      }
      if (is_inside) possible.push_back({static_cast<uint8_t>(set), static_cast<uint8_t>(mask)});
      if (set == 0) break;
    }
  }
  std::stable_sort(possible.begin(), possible.end(),
                   [](const auto& a, const auto& b) { return std::popcount(a.mask) < std::popcount(b.mask); });
  std::vector<BitPattern> chosen;
  std::bitset<256> left = bytes;
  while (left.any()) {
    const BitPattern* best = nullptr;
    size_t most = 0;
    for (const BitPattern& pattern : possible) {
      if (most >= size_t{1} << (8 - std::popcount(pattern.mask))) break;  // the others are no wider
      size_t n = 0;
      const unsigned free = ~pattern.mask & 0xffu;
      for (unsigned rest = free;; rest = (rest - 1) & free) {
        n += left[pattern.set | rest];
        if (rest == 0) break;
      }
      if (n <= most) continue;
      most = n;
      best = &pattern;
    }
    chosen.push_back(*best);
    const unsigned free = ~best->mask & 0xffu;
    for (unsigned rest = free;; rest = (rest - 1) & free) {
      left[best->set | rest] = false;
      if (rest == 0) break;
    }
  }
  return chosen;
}

}  // namespace weir::control::flowspec
