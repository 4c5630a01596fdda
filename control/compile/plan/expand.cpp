#include "control/compile/plan/expand.h"

#include <cmath>
#include <type_traits>

namespace weir::control {
namespace {

template <class Addr>
const PrefixesByLength<Addr>& prefixes_of(const Merged& merged, filter::KeyShape shape) {
  const MergedFamily<Addr>* family;
  if constexpr (std::is_same_v<Addr, Ipv4>) {
    family = &merged.v4;
  } else {
    family = &merged.v6;
  }
  return shape.with_port ? family->one_port : family->any_port;
}

template <class Addr>
struct Block {
  Addr first;
  Addr last;
  uint32_t rule;
  uint16_t port;
};

template <class Addr>
bool nested_before(const Block<Addr>& a, const Block<Addr>& b) {
  if (a.port != b.port) return a.port < b.port;
  return a.first != b.first ? a.first < b.first : a.last > b.last;
}

// Every prefix of the lengths, sorted so that a prefix comes right before those that lie inside it. Each length is
// sorted already (without ports), so that merging them is quicker than sorting all.
template <class Addr>
std::vector<Block<Addr>> nested_order(const PrefixesByLength<Addr>& prefixes, const std::vector<unsigned>& lengths) {
  std::vector<Block<Addr>> blocks;
  for (unsigned bits : lengths) {
    const auto before = static_cast<ptrdiff_t>(blocks.size());
    for (const RuledPrefix<Addr>& prefix : prefixes[bits]) {
      const Addr last = prefix.address | low_bits<Addr>(kAddrBits<Addr> - bits);
      blocks.push_back({prefix.address, last, prefix.rule, prefix.port});
    }
    const auto middle = blocks.begin() + before;
    if (!std::is_sorted(middle, blocks.end(), nested_before<Addr>)) {
      std::sort(middle, blocks.end(), nested_before<Addr>);
    }
    std::inplace_merge(blocks.begin(), middle, blocks.end(), nested_before<Addr>);
  }
  return blocks;
}

template <class Addr>
double count_keys_of(const Merged& merged, const Level& level) {
  const auto& prefixes = prefixes_of<Addr>(merged, level.shape);
  if (level.lengths.size() == 1 && level.lengths[0] == level.shape.addr_bits) {
    return static_cast<double>(prefixes[level.shape.addr_bits].size());
  }
  const int host_bits = static_cast<int>(kAddrBits<Addr> - level.shape.addr_bits);
  double keys = 0;
  const Block<Addr>* outer = nullptr;
  const std::vector<Block<Addr>> blocks = nested_order<Addr>(prefixes, level.lengths);
  for (const Block<Addr>& block : blocks) {
    if (outer != nullptr && block.port == outer->port && block.last <= outer->last) continue;
    outer = &block;
    keys += std::ldexp(static_cast<double>(block.last - block.first) + 1, -host_bits);
  }
  return keys;
}

template <class Addr>
std::vector<RuledPrefix<Addr>> keys_of(const Merged& merged, const Level& level, RuleBook& book) {
  const auto& prefixes = prefixes_of<Addr>(merged, level.shape);
  const unsigned bits = level.shape.addr_bits;
  std::vector<RuledPrefix<Addr>> expanded;
  for (unsigned length : level.lengths) {
    if (length == bits) continue;
    for (RuledPrefix<Addr> key : prefixes[length]) {
      const Addr last = key.address | (low_bits<Addr>(kAddrBits<Addr> - length) & prefix_mask<Addr>(bits));
      for (;; key.address += Addr{1} << (kAddrBits<Addr> - bits)) {  // bits > length >= 0: the shift is in range
        expanded.push_back(key);
        if (key.address == last) break;
      }
    }
  }
  std::sort(expanded.begin(), expanded.end());
  return unite(prefixes[bits], expanded, book);
}

template <class Addr>
filter::KeyTable table_of(const Merged& merged, const Level& level, RuleBook& book) {
  filter::KeyTable table;
  table.shape = level.shape;
  const std::vector<RuledPrefix<Addr>> keys = keys_of<Addr>(merged, level, book);
  const unsigned n_words = filter::key_words(level.shape);
  for (unsigned w = 0; w < n_words; w++) table.words[w].reserve(keys.size());
  table.rules.reserve(keys.size());
  for (const RuledPrefix<Addr>& prefix : keys) {
    const filter::Key key = filter::make_key(level.shape, prefix.address, prefix.port);
    for (unsigned w = 0; w < n_words; w++) table.words[w].push_back(key.word[w]);
    table.rules.push_back(prefix.rule);
  }
  return table;
}

}  // namespace

double count_keys(const Merged& merged, const Level& level) {
  return level.shape.family == 4 ? count_keys_of<Ipv4>(merged, level) : count_keys_of<Ipv6>(merged, level);
}

filter::KeyTable expand_keys(const Merged& merged, const Level& level, RuleBook& book) {
  return level.shape.family == 4 ? table_of<Ipv4>(merged, level, book) : table_of<Ipv6>(merged, level, book);
}

// Prefixes are nested or apart, never crossed: walking them in order, those that are open at one place form a stack,
// and the innermost one's rule is the union of the stack's.
std::vector<filter::NetworkRun> expand_networks(const Merged& merged, const std::vector<unsigned>& lengths,
                                                RuleBook& book) {
  struct Open {
    uint32_t last;  // /24 number
    uint32_t rule;
  };
  std::vector<Open> open;
  std::vector<filter::NetworkRun> runs;
  uint32_t next = 0;  // the first /24 that no run covers yet

  const auto emit = [&](uint32_t last, uint32_t rule) {  // [next, last]
    if (!runs.empty() && runs.back().rule == rule && runs.back().last + 1 == next) {
      runs.back().last = last;
    } else {
      runs.push_back({next, last, rule});
    }
    next = last + 1;
  };
  const auto close_before = [&](uint32_t first) {
    while (!open.empty() && open.back().last < first) {
      if (open.back().last >= next) emit(open.back().last, open.back().rule);
      open.pop_back();
    }
  };

  const uint32_t unit_bits = kAddrBits<Ipv4> - kBitmapBits;
  for (const Block<Ipv4>& block : nested_order<Ipv4>(merged.v4.any_port, lengths)) {
    const uint32_t first = block.first >> unit_bits, last = block.last >> unit_bits;
    close_before(first);
    if (open.empty()) {
      next = first;
      open.push_back({last, block.rule});
    } else {
      if (first > next) emit(first - 1, open.back().rule);
      open.push_back({last, book.unite(open.back().rule, block.rule)});
    }
  }
  close_before(uint32_t{1} << kBitmapBits);
  return runs;
}

}  // namespace weir::control
