#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/ip.h"

// Lists of address ranges, each in the order of their addresses, become one, without holding any of them whole.
namespace weir::control::ctl {

template <class Addr>
struct Range {
  Addr first, last;
};

// The next range of a list; empty: there is none.
template <class Addr>
using NextRange = std::function<std::optional<Range<Addr>>()>;

// The union of lists of ranges: disjoint, not even next to each other, ascending. Ranges of one list ascend by their
// first address, and may overlap.
template <class Addr>
class Union {
 public:
  explicit Union(std::vector<NextRange<Addr>> lists) {
    for (NextRange<Addr>& next : lists) take({{}, std::move(next)});
  }
  std::optional<Range<Addr>> next() {
    if (heads_.empty()) return std::nullopt;
    Range<Addr> whole = pop();
    while (!heads_.empty() &&
           (heads_.front().range.first <= whole.last || heads_.front().range.first == whole.last + 1)) {
      whole.last = std::max(whole.last, pop().last);
    }
    return whole;
  }

 private:
  struct Head {
    Range<Addr> range;
    NextRange<Addr> next;
    bool operator<(const Head& other) const { return other.range.first < range.first; }  // the least is on top
  };
  void take(Head head) {
    const std::optional<Range<Addr>> range = head.next();
    if (!range) return;
    head.range = *range;
    heads_.push_back(std::move(head));
    std::push_heap(heads_.begin(), heads_.end());
  }
  Range<Addr> pop() {
    std::pop_heap(heads_.begin(), heads_.end());
    Head head = std::move(heads_.back());
    heads_.pop_back();
    const Range<Addr> range = head.range;
    take(std::move(head));
    return range;
  }
  std::vector<Head> heads_;
};

// What of the first union is not in the second.
template <class Addr>
void subtract(Union<Addr>& from, Union<Addr>& without, const std::function<void(Range<Addr>)>& visit) {
  std::optional<Range<Addr>> hole = without.next();
  while (std::optional<Range<Addr>> rest = from.next()) {
    while (rest) {
      while (hole && hole->last < rest->first) hole = without.next();
      if (!hole || hole->first > rest->last) {
        visit(*rest);
        break;
      }
      if (hole->first > rest->first) visit({rest->first, static_cast<Addr>(hole->first - 1)});
      if (hole->last >= rest->last) break;
      rest->first = hole->last + 1;
    }
  }
}

// The fewest prefixes that make up the range, ascending: visit(first, bits).
template <class Addr>
void visit_prefixes(Range<Addr> range, const std::function<void(Addr first, unsigned bits)>& visit) {
  while (true) {
    unsigned bits = kAddrBits<Addr>;
    // One bit shorter while it begins and ends in the range.
    while (bits > 0) {
      const auto mask = prefix_mask<Addr>(bits - 1);
      const auto last = static_cast<Addr>(range.first | static_cast<Addr>(~mask));
      if ((range.first & mask) != range.first || last > range.last) break;
      bits--;
    }
    visit(range.first, bits);
    const auto last = static_cast<Addr>(range.first | static_cast<Addr>(~prefix_mask<Addr>(bits)));
    if (last >= range.last) return;
    range.first = last + 1;
  }
}

}  // namespace weir::control::ctl
