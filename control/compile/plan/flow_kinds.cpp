#include "control/compile/plan/flow_kinds.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <map>
#include <queue>

#include "control/compile/plan/levels.h"

namespace weir::control {
namespace {

// What a join that is not needed may make of a chain: whoever has the key pays for asking about each, some 3 ns.
constexpr size_t kShortChain = 16;
// More kinds than this are rounded to fewer prefix lengths before they are compared pair by pair.
constexpr size_t kManyKinds = 128;
// And more groups than this are not compared at all: a policy that needs them has no good shapes.
constexpr size_t kMaxGroups = 512;
// Flows looked at for chains of joined groups, together: about a second.
constexpr size_t kMaxLooks = 20'000'000;
constexpr unsigned kCoarsest = 32;  // prefix lengths are rounded to multiples of this, or of its halves

using Words = std::array<uint64_t, WEIR_MAX_KEY_WORDS>;
using Protocols = std::bitset<256>;

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

Kind rounded(Kind kind, unsigned round_to) {
  for (uint8_t& bits : kind.bits) bits = static_cast<uint8_t>(bits / round_to * round_to);
  return kind;
}

Kind meet(const Kind& a, const Kind& b) {
  return {{std::min(a.bits[kSource], b.bits[kSource]), std::min(a.bits[kDestination], b.bits[kDestination])},
          static_cast<uint8_t>(a.fields & b.fields)};
}

std::vector<Group> by_kind(const std::vector<const Item*>& items, unsigned round_to) {
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

// The flows of the key that has most, each predicate once.
std::vector<const Item*> longest_chain(uint8_t family, const Group& group) {
  struct Keyed {
    Words key;
    unsigned predicate;
    const Item* item;
  };
  const filter::KeyShape shape = shape_of(family, group.kind);
  std::vector<Keyed> keyed;
  keyed.reserve(group.items.size());
  for (const Item* item : group.items) keyed.push_back({key_of(shape, *item).word, item->predicate, item});
  std::sort(keyed.begin(), keyed.end(),
            [](const Keyed& a, const Keyed& b) { return a.key != b.key ? a.key < b.key : a.predicate < b.predicate; });
  const auto same = [](const Keyed& a, const Keyed& b) { return a.key == b.key && a.predicate == b.predicate; };
  keyed.erase(std::unique(keyed.begin(), keyed.end(), same), keyed.end());
  size_t from = 0, longest = 0;
  for (size_t begin = 0, end = 0; begin < keyed.size(); begin = end) {
    while (end < keyed.size() && keyed[end].key == keyed[begin].key) end++;
    if (end - begin <= longest) continue;
    from = begin;
    longest = end - begin;
  }
  std::vector<const Item*> items;
  for (size_t i = from; i < from + longest; i++) items.push_back(keyed[i].item);
  return items;
}

// Judgements, for keys without addresses: the share of packets that have this port, this protocol.
constexpr double kShareOfPort = 0.02;
double share_of_protocol(size_t protocol) {
  return protocol == 6 ? 0.6 : protocol == 17 ? 0.4 : 0.02;
}

// ns that a packet pays for a shape of this kind.
double packet_ns(const Kind& kind, size_t n_items, const Protocols& protocols) {
  constexpr double kAfterHitNs = 10;
  constexpr unsigned kSpread = 8, kMaxBits = 60;  // address bits: from so many on, traffic is spread over them
  const unsigned bits = kind.bits[kSource] + kind.bits[kDestination];
  double share = 1;
  if (bits >= kSpread) {
    share = std::ldexp(static_cast<double>(n_items), -static_cast<int>(std::min(bits, kMaxBits)));
  } else if ((kind.fields & (WEIR_FLOW_SPORT | WEIR_FLOW_DPORT)) != 0) {
    share = kShareOfPort * static_cast<double>(n_items);
  } else if ((kind.fields & WEIR_FLOW_PROTOCOL) != 0) {
    share = 0;
    for (size_t protocol = 0; protocol < protocols.size(); protocol++) {
      if (protocols[protocol]) share += share_of_protocol(protocol);
    }
  }
  return kProbeNs + std::min(share, 1.0) * kAfterHitNs;
}

// Joins groups, the pair that costs least first. A pair whose keys would get too long chains is never tried again:
// joining others to it does not make them shorter.
class Joining {
 public:
  Joining(uint8_t family, std::vector<Group> groups) : family_(family) {
    for (Group& group : groups) add(std::move(group));
  }

  // Until there are `wanted`, or no two can be joined any more.
  void must(size_t wanted) { join(wanted, WEIR_MAX_CHAIN, false); }
  // As long as a packet gains by it.
  void may() {
    pairs_ = {};
    for (size_t a = 0; a < all_.size(); a++) add_pairs(a);
    join(1, kShortChain, true);
  }

  std::vector<Group> take() {
    std::vector<Group> left;
    for (Candidate& candidate : all_) {
      if (candidate.is_there) left.push_back(std::move(candidate.group));
    }
    return left;
  }

 private:
  struct Candidate {
    Group group;
    Protocols protocols;
    double ns;
    bool is_there = true;
  };
  struct Pair {
    double more_ns;
    size_t a, b;                                                                 // indexes of all_
    bool operator<(const Pair& other) const { return more_ns > other.more_ns; }  // the least on top
  };

  void add(Group group) {
    Candidate candidate = {std::move(group), {}, 0};
    for (const Item* item : candidate.group.items) {
      if (item->flow->protocol) candidate.protocols.set(*item->flow->protocol);
    }
    candidate.ns = packet_ns(candidate.group.kind, candidate.group.items.size(), candidate.protocols);
    all_.push_back(std::move(candidate));
    n_left_++;
    add_pairs(all_.size() - 1);
  }

  void add_pairs(size_t newest) {
    const Candidate& b = all_[newest];
    for (size_t i = 0; i < newest && b.is_there; i++) {
      const Candidate& a = all_[i];
      if (!a.is_there) continue;
      const double together = packet_ns(meet(a.group.kind, b.group.kind), a.group.items.size() + b.group.items.size(),
                                        a.protocols | b.protocols);
      pairs_.push({together - a.ns - b.ns, i, newest});
    }
  }

  void join(size_t wanted, size_t longest_allowed, bool only_gains) {
    while (n_left_ > wanted && !pairs_.empty() && looks_ < kMaxLooks) {
      const Pair pair = pairs_.top();
      pairs_.pop();
      if (!all_[pair.a].is_there || !all_[pair.b].is_there) continue;
      if (only_gains && pair.more_ns >= 0) return;
      // With the two go those that are of the joined kind already.
      Group joined = {meet(all_[pair.a].group.kind, all_[pair.b].group.kind), {}};
      std::vector<size_t> parts;
      for (size_t i = 0; i < all_.size(); i++) {
        const Candidate& part = all_[i];
        if (!part.is_there || (i != pair.a && i != pair.b && part.group.kind != joined.kind)) continue;
        parts.push_back(i);
        joined.items.insert(joined.items.end(), part.group.items.begin(), part.group.items.end());
      }
      looks_ += joined.items.size();
      if (longest_chain(family_, joined).size() > longest_allowed) continue;
      for (const size_t part : parts) {
        all_[part].is_there = false;
        all_[part].group.items = {};
      }
      n_left_ -= parts.size();
      add(std::move(joined));
    }
  }

  const uint8_t family_;
  std::vector<Candidate> all_;
  std::priority_queue<Pair> pairs_;
  size_t n_left_ = 0;
  size_t looks_ = 0;
};

// Kinds of rounded prefix lengths: as coarse as keeps every key's chain short.
std::vector<Group> rounded_groups(uint8_t family, const std::vector<const Item*>& items, unsigned round_to) {
  std::vector<Group> groups;
  for (Group& group : by_kind(items, round_to)) {
    if (round_to == 1 || longest_chain(family, group).size() <= WEIR_MAX_CHAIN) {
      groups.push_back(std::move(group));
    } else {
      for (Group& finer : rounded_groups(family, group.items, round_to / 2)) groups.push_back(std::move(finer));
    }
  }
  return groups;
}

Error too_many_shapes(uint8_t family, size_t groups, size_t room) {
  return Error{
      fmt::format("the flows of IPv{} need {} key shapes beside those of addresses; a snapshot has room for {}\nhint: "
                  "name the same fields in more of them, with the same prefix lengths",
                  family, groups, room)};
}

}  // namespace

Ipv6 network_mask(uint8_t family, unsigned bits) {
  return family == 4 ? Ipv6{prefix_mask<Ipv4>(bits)} : prefix_mask<Ipv6>(bits);
}

Around around(const std::optional<AddressRange>& range, uint8_t family) {
  if (!range) return {};
  const unsigned width = family == 4 ? kAddrBits<Ipv4> : kAddrBits<Ipv6>;
  unsigned bits = 0;
  while (bits < width && ((range->first ^ range->last) & network_mask(family, bits + 1)) == 0) bits++;
  const Ipv6 network = network_mask(family, bits);
  const Ipv6 host_bits = network_mask(family, width) & ~network;
  const bool exact = (range->first & host_bits) == 0 && (range->last & host_bits) == host_bits;
  return {range->first & network, static_cast<uint8_t>(bits), exact};
}

filter::KeyShape shape_of(uint8_t family, const Kind& kind) {
  return {family, kind.bits[kSource], false, true, kind.bits[kDestination], kind.fields};
}

filter::Key key_of(filter::KeyShape shape, const Item& item) {
  const Flow& flow = *item.flow;
  const filter::FlowFields fields = {flow.sport ? flow.sport->first : uint16_t{0},
                                     flow.dport ? flow.dport->first : uint16_t{0},
                                     static_cast<uint8_t>(flow.protocol.value_or(0))};
  const Ipv6 source = item.side[kSource].address, destination = item.side[kDestination].address;
  return shape.family == 4
             ? filter::make_flow_key(shape, static_cast<Ipv4>(source), static_cast<Ipv4>(destination), fields)
             : filter::make_flow_key(shape, source, destination, fields);
}

Result<std::vector<Group>> group_flows(const Policy& policy, uint8_t family, const std::vector<const Item*>& items,
                                       size_t wanted, size_t room) {
  std::vector<Group> groups = by_kind(items, 1);
  for (const Group& group : groups) {
    const std::vector<const Item*> alike = longest_chain(family, group);
    if (alike.size() <= WEIR_MAX_CHAIN) continue;
    const Item& first = **std::min_element(alike.begin(), alike.end(), [](const Item* a, const Item* b) {
      return std::pair(a->list, a->flow->line) < std::pair(b->list, b->flow->line);
    });
    return Error{fmt::format(
        "{} entries differ only in what no key can hold (ranges, expiry, all but addresses, protocol and ports), the "
        "first of them in "
        "list {} ({}:{}); at most {} may\nhint: join ranges that touch, or write single ports or smaller prefixes",
        alike.size(), policy.lists[first.list].name, policy.path, first.flow->line, WEIR_MAX_CHAIN)};
  }
  if (groups.size() > kManyKinds) groups = rounded_groups(family, items, kCoarsest);
  if (groups.size() > kMaxGroups) return too_many_shapes(family, groups.size(), room);
  Joining joining(family, std::move(groups));
  joining.must(wanted);
  joining.may();
  groups = joining.take();
  if (groups.size() > room) return too_many_shapes(family, groups.size(), room);
  return groups;
}

}  // namespace weir::control
