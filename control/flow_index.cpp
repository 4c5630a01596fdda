#include "control/flow_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>

#include "control/levels.h"

namespace weir::control {
namespace {

// So many flows may share an address key: whoever has the address pays for asking about each, some 3 ns.
constexpr size_t kMaxUnderAddress = 16;
// And so many may meet at one after prefixes were written out; what is left of WEIR_MAX_CHAIN is for entries that
// expire.
constexpr size_t kMaxNested = 48;
// More kinds of flows than this are rounded to a few prefix lengths before they are compared pair by pair.
constexpr size_t kManyKinds = 128;
constexpr unsigned kRoundedBitsV4 = 8, kRoundedBitsV6 = 32;

enum : unsigned { kSource, kDestination, kSides };

// The least prefix around a range; 0 bits for a side that the flow does not name.
struct Around {
  Ipv6 address = 0;  // IPv4: in the low 32 bits
  uint8_t bits = 0;
  bool exact = true;  // it is the range
};

Ipv6 mask_of(unsigned width, unsigned bits) {
  return width == 32 ? Ipv6{prefix_mask<Ipv4>(bits)} : prefix_mask<Ipv6>(bits);
}

Around around(const std::optional<AddressRange>& range, unsigned width) {
  if (!range) return {};
  unsigned bits = 0;
  while (bits < width && ((range->first ^ range->last) & mask_of(width, bits + 1)) == 0) bits++;
  const Ipv6 network = mask_of(width, bits);
  const Ipv6 host_bits = mask_of(width, width) & ~network;
  const bool exact = (range->first & host_bits) == 0 && (range->last & host_bits) == host_bits;
  return {range->first & network, static_cast<uint8_t>(bits), exact};
}

struct Item {
  const Flow* flow;
  unsigned list;
  unsigned predicate;  // equal for flows that ask the same
  Around side[kSides];
};

// What a flow key is made of; the rest of KeyShape does not vary here.
struct Kind {
  uint8_t bits[kSides];
  uint8_t fields;  // mask of weir_flow_field
  auto operator<=>(const Kind&) const = default;
};

// Everything that the flow names exactly.
Kind kind_of(const Item& item) {
  const auto single = [](const std::optional<PortRange>& ports) { return ports && ports->first == ports->last; };
  const Flow& flow = *item.flow;
  Kind kind = {{item.side[kSource].bits, item.side[kDestination].bits}, 0};
  if (flow.protocol) kind.fields |= WEIR_FLOW_PROTOCOL;
  if (single(flow.sport)) kind.fields |= WEIR_FLOW_SPORT;
  if (single(flow.dport)) kind.fields |= WEIR_FLOW_DPORT;
  return kind;
}

Kind meet(const Kind& a, const Kind& b) {
  return {{std::min(a.bits[kSource], b.bits[kSource]), std::min(a.bits[kDestination], b.bits[kDestination])},
          static_cast<uint8_t>(a.fields & b.fields)};
}

filter::KeyShape shape_of(uint8_t family, const Kind& kind) {
  return {family, kind.bits[kSource], false, true, kind.bits[kDestination], kind.fields};
}

filter::Key key_of(filter::KeyShape shape, const Item& item) {
  const Flow& flow = *item.flow;
  const filter::FlowFields fields = {flow.sport ? flow.sport->first : uint16_t{0},
                                     flow.dport ? flow.dport->first : uint16_t{0}, flow.protocol.value_or(0)};
  const Ipv6 source = item.side[kSource].address, destination = item.side[kDestination].address;
  return shape.family == 4
             ? filter::make_flow_key(shape, static_cast<Ipv4>(source), static_cast<Ipv4>(destination), fields)
             : filter::make_flow_key(shape, source, destination, fields);
}

void put(Ipv6 address, weir_u64 (&halves)[2]) {
  halves[0] = static_cast<uint64_t>(address >> 64);
  halves[1] = static_cast<uint64_t>(address);
}

// All that the flow asks for.
weir_residual condition_of(const Flow& flow) {
  weir_residual condition = {};
  const auto ask = [&](weir_asks what) { condition.asks = static_cast<weir_u16>(condition.asks | what); };
  if (flow.src) {
    ask(WEIR_ASKS_SOURCE);
    put(flow.src->first, condition.source_first);
    put(flow.src->last, condition.source_last);
  }
  if (flow.dst) {
    ask(WEIR_ASKS_DESTINATION);
    put(flow.dst->first, condition.destination_first);
    put(flow.dst->last, condition.destination_last);
  }
  if (flow.protocol) {
    ask(WEIR_ASKS_PROTOCOL);
    condition.protocol = *flow.protocol;
  }
  if (flow.sport) {
    ask(WEIR_ASKS_SPORT);
    condition.sport_first = flow.sport->first;
    condition.sport_last = flow.sport->last;
  }
  if (flow.dport) {
    ask(WEIR_ASKS_DPORT);
    condition.dport_first = flow.dport->first;
    condition.dport_last = flow.dport->last;
  }
  if (flow.icmp_type) {
    ask(WEIR_ASKS_ICMP_TYPE);
    condition.icmp_type = *flow.icmp_type;
  }
  if (flow.icmp_code) {
    ask(WEIR_ASKS_ICMP_CODE);
    condition.icmp_code = *flow.icmp_code;
  }
  if (flow.tcp_mask != 0) {
    ask(WEIR_ASKS_TCP_FLAGS);
    condition.tcp_set = flow.tcp_set;
    condition.tcp_mask = flow.tcp_mask;
  }
  if (flow.expires != kNever) {
    ask(WEIR_ASKS_EXPIRES);
    condition.expires_unix_s = flow.expires;
  }
  return condition;
}

std::string bytes_of(const weir_residual& condition) {
  return {reinterpret_cast<const char*>(&condition), sizeof condition};
}

// What the key says already is not asked again. Unasked values are zero, so that equal conditions are equal bytes.
void forget(weir_residual& condition, unsigned asked) {
  condition.asks = static_cast<weir_u16>(condition.asks & ~asked);
  if ((asked & WEIR_ASKS_SOURCE) != 0) {
    put(0, condition.source_first);
    put(0, condition.source_last);
  }
  if ((asked & WEIR_ASKS_DESTINATION) != 0) {
    put(0, condition.destination_first);
    put(0, condition.destination_last);
  }
  if ((asked & WEIR_ASKS_PROTOCOL) != 0) condition.protocol = 0;
  if ((asked & WEIR_ASKS_SPORT) != 0) condition.sport_first = condition.sport_last = 0;
  if ((asked & WEIR_ASKS_DPORT) != 0) condition.dport_first = condition.dport_last = 0;
}

unsigned asked_by_key(const Item& item, const Kind& kind) {
  unsigned asked = 0;
  for (const unsigned side : {kSource, kDestination}) {
    const bool whole = item.side[side].exact && item.side[side].bits == kind.bits[side];
    if (whole) asked |= side == kSource ? WEIR_ASKS_SOURCE : WEIR_ASKS_DESTINATION;
  }
  if ((kind.fields & WEIR_FLOW_PROTOCOL) != 0) asked |= WEIR_ASKS_PROTOCOL;
  if ((kind.fields & WEIR_FLOW_SPORT) != 0) asked |= WEIR_ASKS_SPORT;
  if ((kind.fields & WEIR_FLOW_DPORT) != 0) asked |= WEIR_ASKS_DPORT;
  return asked;
}

// Flows of one kind, or of several that were joined: one flow shape.
struct Group {
  Kind kind;
  std::vector<const Item*> items;
};

std::vector<filter::Key> keys_of(uint8_t family, const Group& group) {
  std::vector<filter::Key> keys;
  for (const Item* item : group.items) keys.push_back(key_of(shape_of(family, group.kind), *item));
  return keys;
}

// The items by key, each predicate once.
using Words = std::array<uint64_t, WEIR_MAX_KEY_WORDS>;
std::map<Words, std::map<unsigned, const Item*>> by_key(uint8_t family, const Group& group) {
  std::map<Words, std::map<unsigned, const Item*>> sharers;
  const std::vector<filter::Key> keys = keys_of(family, group);
  for (size_t i = 0; i < keys.size(); i++) sharers[keys[i].word].emplace(group.items[i]->predicate, group.items[i]);
  return sharers;
}

// The most residuals that a key gets.
size_t longest_chain(uint8_t family, const Group& group) {
  std::vector<std::pair<Words, unsigned>> keyed;
  const std::vector<filter::Key> keys = keys_of(family, group);
  for (size_t i = 0; i < keys.size(); i++) keyed.emplace_back(keys[i].word, group.items[i]->predicate);
  std::sort(keyed.begin(), keyed.end());
  keyed.erase(std::unique(keyed.begin(), keyed.end()), keyed.end());
  size_t longest = 0;
  for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    while (end < keyed.size() && keyed[end].first == keyed[begin].first) end++;
    longest = std::max(longest, end - begin);
  }
  return longest;
}

// Judgements, for keys without addresses: the share of packets that have this port, this protocol.
constexpr double kShareOfPort = 0.02;
double share_of_protocol(uint8_t protocol) {
  return protocol == 6 ? 0.6 : protocol == 17 ? 0.4 : 0.02;
}

// ns that a packet pays for a shape of this kind: one probe, and what follows when an innocent packet has such a key.
double packet_ns(const Kind& kind, std::span<const Item* const> one, std::span<const Item* const> other = {}) {
  constexpr double kAfterHitNs = 10;
  constexpr unsigned kSpread = 8, kMaxBits = 60;  // address bits: from so many on, traffic is spread over them
  const auto n_items = static_cast<double>(one.size() + other.size());
  const unsigned bits = kind.bits[kSource] + kind.bits[kDestination];
  double share = 1;
  if (bits >= kSpread) {
    share = std::ldexp(n_items, -static_cast<int>(std::min(bits, kMaxBits)));
  } else if ((kind.fields & (WEIR_FLOW_SPORT | WEIR_FLOW_DPORT)) != 0) {
    share = kShareOfPort * n_items;
  } else if ((kind.fields & WEIR_FLOW_PROTOCOL) != 0) {
    std::set<uint8_t> protocols;
    for (const auto& items : {one, other}) {
      for (const Item* item : items) protocols.insert(*item->flow->protocol);
    }
    share = 0;
    for (const uint8_t protocol : protocols) share += share_of_protocol(protocol);
  }
  return kProbeNs + std::min(share, 1.0) * kAfterHitNs;
}

class FamilyIndex {
 public:
  FamilyIndex(const Policy& policy, uint8_t family, Merged& merged)
      : policy_(policy), family_(family), width_(family == 4 ? 32 : 128), merged_(merged) {
    for (unsigned list = 0; list < policy.lists.size(); list++) {
      for (const Flow& flow : policy.lists[list].flows) {
        if (flow.family != 0 && flow.family != family) continue;
        const auto [predicate, is_new] =
            predicates_.try_emplace(bytes_of(condition_of(flow)), static_cast<unsigned>(predicates_.size()));
        items_.push_back({&flow, list, predicate->second, {around(flow.src, width_), around(flow.dst, width_)}});
      }
    }
  }

  Result<void> run() {
    if (items_.empty()) return {};
    std::vector<const Item*> left;
    for (const Item& item : items_) left.push_back(&item);
    left = place_under_addresses(std::move(left));
    Result<std::vector<Group>> groups = group(left);
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
      for (const auto& entry : entries) sides |= entry.directions;
    };
    for (const List& list : policy_.lists) family_ == 4 ? add(list.v4) : add(list.v6);
    return sides;
  }

  // Those that find no place there come back.
  std::vector<const Item*> place_under_addresses(std::vector<const Item*> items) {
    std::map<AddressKey, size_t> sharing;  // flows that name it
    for (const Item* item : items) {
      for (const unsigned side : {kSource, kDestination}) sharing[address_key(*item, side)]++;
    }
    const uint8_t probed = probed_sides();
    const auto rank = [&](const Item& item, unsigned side) {  // the less the better
      const size_t sharers = sharing[address_key(item, side)];
      const bool extra_probe = (probed & (side == kSource ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) == 0;
      return std::tuple(item.side[side].bits == 0, sharers > kMaxUnderAddress, extra_probe, sharers,
                        width_ - item.side[side].bits);
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
    for (auto at = under.begin(); at != under.end();) {
      const auto& [side, bits, address] = at->first;
      size_t meeting = 0;  // at one key, when prefixes are written out: of this one and of those around it
      for (const uint8_t length : lengths[side]) {
        if (length > bits) break;
        const auto outer = under.find({side, length, address & mask_of(width_, length)});
        if (outer != under.end()) meeting += outer->second.size();
      }
      if (meeting <= kMaxNested) {
        for (const Item* item : at->second) add_prefix(*item, side);
        ++at;
      } else {
        left.insert(left.end(), at->second.begin(), at->second.end());
        at = under.erase(at);
      }
    }
    family_ == 4 ? add_all(merged_.v4.any_port, prefixes_) : add_all(merged_.v6.any_port, prefixes_);
    return left;
  }

  void add_prefix(const Item& item, unsigned side) {
    weir_residual condition = condition_of(*item.flow);
    if (item.side[side].exact) forget(condition, side == kSource ? WEIR_ASKS_SOURCE : WEIR_ASKS_DESTINATION);
    const uint8_t direction = side == kSource ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    prefixes_[item.side[side].bits].push_back(
        {item.side[side].address, merged_.book.rule_if(condition, direction, item.list), 0});
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

  std::vector<Group> by_kind(const std::vector<const Item*>& items, unsigned round_to) const {
    std::map<Kind, Group> groups;
    for (const Item* item : items) {
      const Kind kind = rounded(kind_of(*item), round_to);
      Group& group = groups[kind];
      group.kind = kind;
      group.items.push_back(item);
    }
    std::vector<Group> all;
    for (auto& [kind, group] : groups) all.push_back(std::move(group));
    return all;
  }

  // Fewer groups, by rounded prefix lengths; those whose flows would then be too many for a key stay as they are.
  std::vector<Group> rounded(std::vector<Group> exact, const std::vector<const Item*>& items) const {
    const unsigned round_to = family_ == 4 ? kRoundedBitsV4 : kRoundedBitsV6;
    std::vector<Group> groups;
    std::set<Kind> too_long;
    for (Group& group : by_kind(items, round_to)) {
      if (longest_chain(family_, group) <= WEIR_MAX_CHAIN) {
        groups.push_back(std::move(group));
      } else {
        too_long.insert(group.kind);
      }
    }
    for (Group& group : exact) {
      if (too_long.count(rounded(group.kind, round_to)) != 0) groups.push_back(std::move(group));
    }
    return groups;
  }

  static Kind rounded(Kind kind, unsigned round_to) {
    for (uint8_t& bits : kind.bits) bits = static_cast<uint8_t>(bits / round_to * round_to);
    return kind;
  }

  Result<std::vector<Group>> group(const std::vector<const Item*>& items) const {
    std::vector<Group> groups = by_kind(items, 1);
    for (const Group& group : groups) {
      if (longest_chain(family_, group) > WEIR_MAX_CHAIN) return too_many_alike(group);
    }
    if (groups.size() > kManyKinds) groups = rounded(std::move(groups), items);
    while (join_two(groups)) {
    }
    const size_t room = WEIR_MAX_SHAPES_PER_FAMILY - least_address_shapes();
    if (groups.size() <= room) return groups;
    return Error{fmt::format(
        "the flows of IPv{} need {} key shapes beside those of addresses; a snapshot has room for {}\nhint: "
        "name the same fields in more of them, with the same prefix lengths",
        family_, groups.size(), room)};
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

  // Joins the two groups that are cheapest together, and those of the kind that they become; false when it is better to
  // stop.
  bool join_two(std::vector<Group>& groups) const {
    const bool must = groups.size() > kMaxFlowShapes;
    const size_t longest_allowed = must ? WEIR_MAX_CHAIN : kMaxUnderAddress;
    struct Pair {
      double more_ns;
      size_t a, b;
    };
    std::vector<Pair> pairs;
    for (size_t a = 0; a < groups.size(); a++) {
      for (size_t b = a + 1; b < groups.size(); b++) {
        const Group &one = groups[a], &other = groups[b];
        const double more = packet_ns(meet(one.kind, other.kind), one.items, other.items) -
                            packet_ns(one.kind, one.items) - packet_ns(other.kind, other.items);
        if (must || more < 0) pairs.push_back({more, a, b});
      }
    }
    std::sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) { return x.more_ns < y.more_ns; });
    for (const Pair& pair : pairs) {
      Group joined = {meet(groups[pair.a].kind, groups[pair.b].kind), {}};
      std::vector<Group> others;
      for (size_t i = 0; i < groups.size(); i++) {
        const Group& group = groups[i];
        if (i == pair.a || i == pair.b || group.kind == joined.kind) {
          joined.items.insert(joined.items.end(), group.items.begin(), group.items.end());
        } else {
          others.push_back(group);
        }
      }
      if (longest_chain(family_, joined) > longest_allowed) continue;
      others.push_back(std::move(joined));
      groups = std::move(others);
      return true;
    }
    return false;
  }

  Error too_many_alike(const Group& group) const {
    const auto sharers = by_key(family_, group);
    const auto most = std::max_element(sharers.begin(), sharers.end(),
                                       [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    const auto& [predicate, first_item] = *most->second.begin();
    const Item& first = *first_item;
    return Error{fmt::format(
        "{} entries differ only in ranges of ports, ICMP, TCP flags, address ranges or expiry, the first of them in "
        "list "
        "{} ({}:{}); at most {} may\nhint: join ranges that touch, or write single ports or smaller prefixes",
        most->second.size(), policy_.lists[first.list].name, policy_.path, first.flow->line, WEIR_MAX_CHAIN)};
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
  const unsigned width_;
  Merged& merged_;
  std::unordered_map<std::string, unsigned> predicates_;
  std::vector<Item> items_;
  std::map<uint8_t, std::vector<RuledPrefix<Ipv6>>> prefixes_;  // by length; conditions under addresses
};

}  // namespace

Result<void> index_flows(const Policy& policy, Merged& merged) {
  for (const uint8_t family : {uint8_t{4}, uint8_t{6}}) {
    if (auto ok = FamilyIndex(policy, family, merged).run(); !ok) return ok;
  }
  return {};
}

}  // namespace weir::control
