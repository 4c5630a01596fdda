#include "control/compile/plan/flow_index.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "control/compile/plan/flow_kinds.h"
#include "control/policy/model/flow_condition.h"

namespace weir::control {
namespace {

// So many flows may share an address key: whoever has the address pays for asking about each, some 3 ns.
constexpr size_t kMaxUnderAddress = 16;
// And so many may meet at one after prefixes were written out; what is left of WEIR_MAX_CHAIN is for entries that
// expire.
constexpr size_t kMaxNested = 48;

weir_asks asks_side(unsigned side) {
  return side == kSource ? WEIR_ASKS_SOURCE : WEIR_ASKS_DESTINATION;
}

unsigned asked_by_key(const Item& item, const Kind& kind) {
  unsigned asked = 0;
  for (const unsigned side : {kSource, kDestination}) {
    if (item.side[side].exact && item.side[side].bits == kind.bits[side]) asked |= asks_side(side);
  }
  if ((kind.fields & WEIR_FLOW_PROTOCOL) != 0) asked |= WEIR_ASKS_PROTOCOL;
  if ((kind.fields & WEIR_FLOW_SPORT) != 0) asked |= WEIR_ASKS_SPORT;
  if ((kind.fields & WEIR_FLOW_DPORT) != 0) asked |= WEIR_ASKS_DPORT;
  return asked;
}

class FamilyIndex {
 public:
  FamilyIndex(const Policy& policy, uint8_t family, Merged& merged)
      : policy_(policy), family_(family), merged_(merged) {
    std::unordered_map<std::string, unsigned> predicates;
    for (unsigned list = 0; list < policy.lists.size(); list++) {
      for (const Flow& flow : policy.lists[list].flows()) {
        if (flow.family != 0 && flow.family != family) continue;
        const weir_residual asked = condition_of(flow);
        const std::string bytes(reinterpret_cast<const char*>(&asked), sizeof asked);
        const auto [predicate, is_new] = predicates.try_emplace(bytes, static_cast<unsigned>(predicates.size()));
        items_.push_back({&flow, list, predicate->second, {around(flow.src, family), around(flow.dst, family)}});
      }
    }
  }

  Result<void> run() {
    if (items_.empty()) return {};
    std::vector<const Item*> left;
    for (const Item& item : items_) left.push_back(&item);
    left = place_under_addresses(left);
    const Result<std::vector<Group>> groups =
        group_flows(policy_, family_, left, kMaxFlowShapes, WEIR_MAX_SHAPES_PER_FAMILY - least_address_shapes());
    if (!groups) return Error{groups.error()};
    for (const Group& group : *groups) add_table(group);
    return {};
  }

 private:
  using AddressKey = std::tuple<unsigned, uint8_t, Ipv6>;  // side, bits, address

  static AddressKey address_key(const Item& item, unsigned side) {
    return {side, item.side[side].bits, item.side[side].address};
  }

  // Sides on which packets' addresses are looked up anyway.
  uint8_t probed_sides() const {
    uint8_t sides = 0;
    const auto add = [&](const auto& entries) {
      for (const auto& entry : entries) sides |= entry.sides();
    };
    for (const List& list : policy_.lists) family_ == 4 ? add(list.v4()) : add(list.v6());
    return sides;
  }

  // Those that find no place there come back.
  std::vector<const Item*> place_under_addresses(const std::vector<const Item*>& items) {
    std::map<AddressKey, size_t> sharing;  // flows that name it
    for (const Item* item : items) {
      for (const unsigned side : {kSource, kDestination}) sharing[address_key(*item, side)]++;
    }
    const uint8_t probed = probed_sides();
    const auto rank = [&](const Item& item, unsigned side) {  // the less the better
      const size_t sharers = sharing[address_key(item, side)];
      const bool extra_probe = (probed & (side == kSource ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) == 0;
      return std::tuple(item.side[side].bits == 0, sharers > kMaxUnderAddress, extra_probe, sharers,
                        -int{item.side[side].bits});
    };
    std::map<AddressKey, std::vector<const Item*>> under;
    std::vector<const Item*> left;
    for (const Item* item : items) {
      const unsigned side = rank(*item, kDestination) <= rank(*item, kSource) ? kDestination : kSource;
      if (item->side[side].bits == 0) {
        left.push_back(item);
      } else {
        under[address_key(*item, side)].push_back(item);
      }
    }
    std::set<uint8_t> lengths[kSides];
    for (auto at = under.begin(); at != under.end();) {
      if (at->second.size() <= kMaxUnderAddress) {
        lengths[std::get<0>(at->first)].insert(std::get<1>(at->first));
        ++at;
      } else {
        left.insert(left.end(), at->second.begin(), at->second.end());
        at = under.erase(at);
      }
    }
    std::map<uint8_t, std::vector<RuledPrefix<Ipv6>>> prefixes;  // by length
    for (auto at = under.begin(); at != under.end();) {
      const auto& [side, bits, address] = at->first;
      size_t meeting = 0;  // at one key, when prefixes are written out: of this one and of those around it
      for (const uint8_t length : lengths[side]) {
        if (length > bits) break;
        const auto outer = under.find({side, length, address & network_mask(family_, length)});
        if (outer != under.end()) meeting += outer->second.size();
      }
      if (meeting <= kMaxNested) {
        for (const Item* item : at->second) prefixes[bits].push_back(prefix_of(*item, side));
        ++at;
      } else {
        left.insert(left.end(), at->second.begin(), at->second.end());
        at = under.erase(at);
      }
    }
    family_ == 4 ? add_all(merged_.v4.any_port, prefixes) : add_all(merged_.v6.any_port, prefixes);
    return left;
  }

  RuledPrefix<Ipv6> prefix_of(const Item& item, unsigned side) {
    weir_residual condition = condition_of(*item.flow);
    if (item.side[side].exact) forget(condition, asks_side(side));
    const uint8_t direction = side == kSource ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    return {item.side[side].address, merged_.book.rule_if(condition, direction, item.list), 0};
  }

  template <class Addr>
  void add_all(PrefixesByLength<Addr>& tables, const std::map<uint8_t, std::vector<RuledPrefix<Ipv6>>>& more) {
    for (const auto& [bits, wide] : more) {
      std::vector<RuledPrefix<Addr>> prefixes;
      for (const RuledPrefix<Ipv6>& prefix : wide) {
        prefixes.push_back({static_cast<Addr>(prefix.address), prefix.rule, prefix.port});
      }
      add_prefixes(tables[bits], std::move(prefixes), merged_.book);
    }
  }

  // However much prefixes are written out, those of any port and those of one port need a shape each.
  size_t least_address_shapes() const {
    const auto is_there = [](const auto& tables) {
      return std::any_of(tables.begin(), tables.end(), [](const auto& table) { return !table.empty(); });
    };
    const auto needed = [&](const auto& family) {
      return static_cast<size_t>(is_there(family.any_port)) + static_cast<size_t>(is_there(family.one_port));
    };
    return family_ == 4 ? needed(merged_.v4) : needed(merged_.v6);
  }

  void add_table(const Group& group) {
    struct Ruled {
      filter::Key key;
      uint32_t rule;
    };
    FlowTable table;
    table.keys.shape = shape_of(family_, group.kind);
    table.flows = group.items.size();
    std::vector<Ruled> ruled;
    for (const Item* item : group.items) {
      weir_residual condition = condition_of(*item->flow);
      forget(condition, asked_by_key(*item, group.kind));
      ruled.push_back({key_of(table.keys.shape, *item), merged_.book.rule_if(condition, WEIR_AS_SOURCE, item->list)});
    }
    std::sort(ruled.begin(), ruled.end(), [](const Ruled& a, const Ruled& b) { return a.key.word < b.key.word; });
    const unsigned n_words = filter::key_words(table.keys.shape);
    for (size_t i = 0; i < ruled.size(); i++) {
      if (i > 0 && ruled[i].key == ruled[i - 1].key) {
        uint32_t& rule = table.keys.rules.back();
        rule = merged_.book.unite(rule, ruled[i].rule);
        continue;
      }
      for (unsigned w = 0; w < n_words; w++) table.keys.words[w].push_back(ruled[i].key.word[w]);
      table.keys.rules.push_back(ruled[i].rule);
    }
    merged_.flow_tables.push_back(std::move(table));
  }

  const Policy& policy_;
  const uint8_t family_;
  Merged& merged_;
  std::vector<Item> items_;
};

}  // namespace

Result<void> index_flows(const Policy& policy, Merged& merged) {
  for (const uint8_t family : {uint8_t{4}, uint8_t{6}}) {
    if (auto ok = FamilyIndex(policy, family, merged).run(); !ok) return ok;
  }
  return {};
}

}  // namespace weir::control
