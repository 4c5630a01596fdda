#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "common/ip.h"
#include "common/progress.h"
#include "control/compile/merge/rule_book.h"
#include "control/policy/model/policy.h"
#include "filter/build/builder.h"

// merge: the entries of all lists become prefixes, each with the rule of all lists that hold it; entries that expire
// are conditions of the rule. Nothing is taken away for being nested: a lookup unites what every shape answers, so a
// host inside a listed network keeps both lists.
namespace weir::control {

// Sorts what is in order in long runs, as the rows of lists are: the runs are merged. Few runs cost less than sorting.
template <class T>
void sort_runs(std::vector<T>& values) {
  constexpr size_t kManyRuns = 64;
  std::vector<size_t> ends;  // of the runs
  for (size_t i = 1; i <= values.size(); i++) {
    if (i < values.size() && !(values[i] < values[i - 1])) continue;
    ends.push_back(i);
    if (ends.size() > kManyRuns) return std::sort(values.begin(), values.end());
  }
  while (ends.size() > 1) {
    std::vector<size_t> merged;
    const auto at = [&](size_t index) { return values.begin() + static_cast<ptrdiff_t>(index); };
    for (size_t i = 0, begin = 0; i < ends.size(); i += 2) {
      const size_t end = i + 1 < ends.size() ? ends[i + 1] : ends[i];
      std::inplace_merge(at(begin), at(ends[i]), at(end));
      merged.push_back(end);
      begin = end;
    }
    ends = std::move(merged);
  }
}

// The prefix's length is the table that holds it.
template <class Addr>
struct RuledPrefix {
  Addr address;
  uint32_t rule;
  uint16_t port;  // 0 = any

  bool same_key(const RuledPrefix& other) const { return address == other.address && port == other.port; }
  bool operator<(const RuledPrefix& other) const {
    return address < other.address || (address == other.address && port < other.port);
  }
};

// [length]: sorted by (address, port), each pair once.
template <class Addr>
using PrefixesByLength = std::array<std::vector<RuledPrefix<Addr>>, kAddrBits<Addr> + 1>;

template <class Addr>
struct MergedFamily {
  PrefixesByLength<Addr> any_port;
  PrefixesByLength<Addr> one_port;
};

// The flows of one flow shape.
struct FlowTable {
  filter::KeyTable keys;  // layout and rate are left to the planner
  uint64_t flows = 0;     // that the keys stand for
};

struct Merged {
  RuleBook book;
  MergedFamily<Ipv4> v4;
  MergedFamily<Ipv6> v6;
  std::vector<FlowTable> flow_tables;  // IPv4 first
};

// All but the flows (control/compile/plan/flow_index.h).
Merged merge(const Policy& policy, Progress* progress = nullptr);

// Unites two sorted tables of the same length.
template <class Addr>
std::vector<RuledPrefix<Addr>> unite(const std::vector<RuledPrefix<Addr>>& a, const std::vector<RuledPrefix<Addr>>& b,
                                     RuleBook& book) {
  std::vector<RuledPrefix<Addr>> both;
  both.reserve(a.size() + b.size());
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool from_a = j == b.size() || (i < a.size() && a[i] < b[j]);
    const RuledPrefix<Addr>& next = from_a ? a[i++] : b[j++];
    if (!both.empty() && both.back().same_key(next)) {
      both.back().rule = book.unite(both.back().rule, next.rule);
    } else {
      both.push_back(next);
    }
  }
  return both;
}

// Adds prefixes in any order to a sorted table.
template <class Addr>
void add_prefixes(std::vector<RuledPrefix<Addr>>& table, std::vector<RuledPrefix<Addr>> more, RuleBook& book) {
  if (more.empty()) return;
  std::sort(more.begin(), more.end());
  table = unite(table, more, book);
}

// Addr's lowest `count` (0..width) bits.
template <class Addr>
constexpr Addr low_bits(unsigned count) {
  return static_cast<Addr>(~prefix_mask<Addr>(kAddrBits<Addr> - count));
}

template <class Addr>
constexpr unsigned trailing_zeros(Addr address) {
  if constexpr (sizeof(Addr) <= 8) {
    return static_cast<unsigned>(std::countr_zero(address));
  } else {
    const auto low = static_cast<uint64_t>(address);
    return static_cast<unsigned>(low != 0 ? std::countr_zero(low)
                                          : 64 + std::countr_zero(static_cast<uint64_t>(address >> 64)));
  }
}

// The fewest prefixes that cover first..last exactly, ascending: visit(address, prefix_bits). At most twice the
// address width of them.
template <class Addr, class Visit>
void split_range(Addr first, Addr last, Visit visit) {
  for (;;) {
    unsigned host_bits = trailing_zeros(first);  // the largest block that may start here, then shrunk to fit
    while (static_cast<Addr>(first | low_bits<Addr>(host_bits)) > last) host_bits--;
    visit(first, kAddrBits<Addr> - host_bits);
    const Addr block_end = static_cast<Addr>(first | low_bits<Addr>(host_bits));
    if (block_end == last) return;
    first = static_cast<Addr>(block_end + 1);
  }
}

}  // namespace weir::control
