#include "control/compile/merge/merge.h"

namespace weir::control {
namespace {

// Until all lists are united, RuledPrefix::rule says which list has the prefix, and on which sides.
constexpr uint32_t one_list(unsigned list, unsigned directions) {
  return list * (kBothDirections + 1) | directions;
}
constexpr unsigned list_of(uint32_t rule) {
  return rule / (kBothDirections + 1);
}
constexpr uint8_t directions_of(uint32_t rule) {
  return rule & kBothDirections;
}

// If a list has several entries on one prefix, the last to expire counts.
template <class Addr>
struct ExpiringPrefix {
  RuledPrefix<Addr> prefix;
  uint32_t expires;

  bool is_same(const ExpiringPrefix& other) const {
    return prefix.same_key(other.prefix) && prefix.rule == other.prefix.rule;
  }
  bool operator<(const ExpiringPrefix& other) const {
    if (!prefix.same_key(other.prefix)) return prefix < other.prefix;
    return prefix.rule != other.prefix.rule ? prefix.rule < other.prefix.rule : expires > other.expires;
  }
};

template <class Addr>
struct PrefixesOfLists {
  MergedFamily<Addr> lasting;
  std::array<std::vector<ExpiringPrefix<Addr>>, kAddrBits<Addr> + 1> expiring_any_port, expiring_one_port;

  uint64_t n_lasting() const {
    uint64_t n = 0;
    for (const auto* by_length : {&lasting.any_port, &lasting.one_port}) {
      for (const auto& prefixes : *by_length) n += prefixes.size();
    }
    return n;
  }
  void add(unsigned list, const Rows<Addr>& rows) {
    for (const Entry<Addr> entry : rows) {
      auto& by_length = entry.port == 0 ? lasting.any_port : lasting.one_port;
      auto& expiring = entry.port == 0 ? expiring_any_port : expiring_one_port;
      split_range(entry.first, entry.last, [&](Addr address, unsigned bits) {
        const RuledPrefix<Addr> prefix = {address, one_list(list, entry.sides()), entry.port};
        if (entry.expires == kNever) {
          by_length[bits].push_back(prefix);
        } else {
          expiring[bits].push_back({prefix, entry.expires});
        }
      });
    }
  }
};

// The rule of one list alone, the usual case, without asking the book again.
class SingleListRules {
 public:
  explicit SingleListRules(RuleBook& book) : book_(book) {}

  uint32_t rule(unsigned list, unsigned directions) {
    uint32_t& known = rules_[list][directions];
    if (known == 0) {
      weir_set source = {}, destination = {};
      if ((directions & WEIR_AS_SOURCE) != 0) add_list(source, list);
      if ((directions & WEIR_AS_DESTINATION) != 0) add_list(destination, list);
      known = book_.rule(source, destination);
    }
    return known;
  }

 private:
  RuleBook& book_;
  uint32_t rules_[WEIR_MAX_LISTS][kBothDirections + 1] = {};
};

// Sorts the prefixes of all lists, and unites those of the same key.
template <class Addr>
void unite(std::vector<RuledPrefix<Addr>>& prefixes, RuleBook& book, SingleListRules& single, Progress* progress) {
  sort_runs(prefixes);
  ProgressCount count(progress);
  size_t united = 0;
  for (size_t begin = 0, end = 0; begin < prefixes.size(); begin = end) {
    const RuledPrefix<Addr> first = prefixes[begin];
    weir_set source = {}, destination = {};
    for (; end < prefixes.size() && prefixes[end].same_key(first); end++) {
      count.one();
      const uint32_t rule = prefixes[end].rule;
      if ((directions_of(rule) & WEIR_AS_SOURCE) != 0) add_list(source, list_of(rule));
      if ((directions_of(rule) & WEIR_AS_DESTINATION) != 0) add_list(destination, list_of(rule));
    }
    const uint32_t rule =
        end - begin == 1 ? single.rule(list_of(first.rule), directions_of(first.rule)) : book.rule(source, destination);
    prefixes[united++] = {first.address, rule, first.port};
  }
  prefixes.resize(united);
}

template <class Addr>
std::vector<RuledPrefix<Addr>> conditional(std::vector<ExpiringPrefix<Addr>>& expiring, RuleBook& book) {
  std::sort(expiring.begin(), expiring.end());
  std::vector<RuledPrefix<Addr>> prefixes;
  const ExpiringPrefix<Addr>* before = nullptr;
  for (const ExpiringPrefix<Addr>& one : expiring) {
    if (before != nullptr && before->is_same(one)) continue;
    before = &one;
    weir_residual condition = {};
    condition.asks = WEIR_ASKS_EXPIRES;
    condition.expires_unix_s = one.expires;
    const uint32_t rule = book.rule_if(condition, directions_of(one.prefix.rule), list_of(one.prefix.rule));
    prefixes.push_back({one.prefix.address, rule, one.prefix.port});
  }
  return prefixes;
}

template <class Addr>
MergedFamily<Addr> merge_family(PrefixesOfLists<Addr> lists, RuleBook& book, SingleListRules& single,
                                Progress* progress) {
  const auto merge_length = [&](std::vector<RuledPrefix<Addr>>& prefixes, std::vector<ExpiringPrefix<Addr>>& expiring) {
    unite(prefixes, book, single, progress);
    add_prefixes(prefixes, conditional(expiring, book), book);
  };
  for (unsigned bits = 0; bits <= kAddrBits<Addr>; bits++) {
    merge_length(lists.lasting.any_port[bits], lists.expiring_any_port[bits]);
    merge_length(lists.lasting.one_port[bits], lists.expiring_one_port[bits]);
  }
  return std::move(lists.lasting);
}

}  // namespace

Merged merge(const Policy& policy, Progress* progress) {
  PrefixesOfLists<Ipv4> v4;
  PrefixesOfLists<Ipv6> v6;
  for (unsigned list = 0; list < policy.lists.size(); list++) {
    v4.add(list, policy.lists[list].v4());
    v6.add(list, policy.lists[list].v6());
  }
  if (progress != nullptr) progress->expect(v4.n_lasting() + v6.n_lasting());
  Merged merged;
  SingleListRules single(merged.book);
  merged.v4 = merge_family(std::move(v4), merged.book, single, progress);
  merged.v6 = merge_family(std::move(v6), merged.book, single, progress);
  return merged;
}

}  // namespace weir::control
