#pragma once

#include <algorithm>
#include <vector>

#include "control/policy/model/entry.h"

// Ranges of addresses, ascending and apart, and what they leave of an entry.
namespace weir::control {

template <class Addr>
struct AddrRange {  // inclusive
  Addr first, last;
};

// The same addresses in ranges that ascend and lie apart.
template <class Addr>
std::vector<AddrRange<Addr>> united(std::vector<AddrRange<Addr>> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<AddrRange<Addr>> all;
  for (const AddrRange<Addr>& range : ranges) {
    if (all.empty() || range.first > all.back().last) {
      all.push_back(range);
    } else {
      all.back().last = std::max(all.back().last, range.last);
    }
  }
  return all;
}

// The first of united ranges that ends at the address or behind it.
template <class Addr>
auto first_until(const std::vector<AddrRange<Addr>>& ranges, Addr address) {
  return std::lower_bound(ranges.begin(), ranges.end(), address,
                          [](const AddrRange<Addr>& range, Addr a) { return range.last < a; });
}

// Appends what united ranges leave of the entry.
template <class Addr>
void cut(const std::vector<AddrRange<Addr>>& ranges, Entry<Addr> entry, std::vector<Entry<Addr>>& left) {
  for (auto range = first_until(ranges, entry.first); range != ranges.end() && range->first <= entry.last; ++range) {
    if (entry.first < range->first) {
      left.push_back(entry);
      left.back().last = range->first - 1;
    }
    if (range->last >= entry.last) return;
    entry.first = range->last + 1;
  }
  left.push_back(entry);
}

}  // namespace weir::control
