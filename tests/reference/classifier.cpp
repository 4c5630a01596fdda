#include "tests/reference/classifier.h"

#include <algorithm>
#include <cassert>
#include <set>

namespace weir::reference {
namespace {

Ipv6 address_on(const PacketKeys& packet, uint8_t side) {
  return side == WEIR_AS_SOURCE ? packet.src : packet.dst;
}

// Is the address one that no entry without named fields of this list matches?
bool is_own(const control::List& list, uint8_t family, Ipv6 address) {
  const auto holds = [&](const auto& rows) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const auto& own) { return own.first <= address && address <= own.last; });
  };
  return list.own != nullptr && (family == 4 ? holds(list.own->entries->v4) : holds(list.own->entries->v6));
}

// Does one side of the packet match? An entry with a port wants that port on the same side as its address.
bool side_matches(const PacketKeys& packet, uint8_t side, Ipv6 first, Ipv6 last, uint16_t port, uint8_t directions) {
  if ((directions & side) == 0) return false;
  const Ipv6 address = address_on(packet, side);
  if (address < first || address > last) return false;
  if (port == 0) return true;
  return packet.has_ports && port == (side == WEIR_AS_SOURCE ? packet.sport : packet.dport);
}

bool is_live(uint32_t expires, uint64_t now) {
  return expires == control::kNever || now < expires;
}

template <class Addr>
bool any_entry_matches(const control::List& list, const control::Rows<Addr>& entries, const PacketKeys& packet,
                       uint64_t now) {
  for (const control::Entry<Addr> entry : entries) {
    if (!is_live(entry.expires, now)) continue;
    for (const uint8_t side : {WEIR_AS_SOURCE, WEIR_AS_DESTINATION}) {
      const bool is_cut =
          (entry.directions & control::kNamesSide) == 0 && is_own(list, packet.family, address_on(packet, side));
      if (!is_cut && side_matches(packet, side, entry.first, entry.last, entry.port, entry.directions)) return true;
    }
  }
  return false;
}

bool is_in(Ipv6 address, const control::AddressRange& range) {
  return range.first <= address && address <= range.last;
}

bool is_in(uint16_t port, const control::PortRange& range) {
  return range.first <= port && port <= range.last;
}

// What is given must hold; a field that the packet does not have fails what asks for it.
bool flow_matches(const control::Flow& flow, const PacketKeys& packet, uint64_t now) {
  if (!is_live(flow.expires, now)) return false;
  if (flow.family != 0 && flow.family != packet.family) return false;
  if (flow.src && !is_in(packet.src, *flow.src)) return false;
  if (flow.dst && !is_in(packet.dst, *flow.dst)) return false;
  if (flow.protocol && *flow.protocol != packet.protocol) return false;
  if (flow.sport && !(packet.has_ports && is_in(packet.sport, *flow.sport))) return false;
  if (flow.dport && !(packet.has_ports && is_in(packet.dport, *flow.dport))) return false;
  if (flow.icmp_type && !(packet.has_icmp_type && packet.icmp_type == *flow.icmp_type)) return false;
  if (flow.icmp_code && !(packet.has_icmp_code && packet.icmp_code == *flow.icmp_code)) return false;
  if (flow.tcp_flags && !packet.has_tcp_flags) return false;
  if (flow.tcp_flags && (packet.tcp_flags & flow.tcp_flags->mask) != flow.tcp_flags->set) return false;
  if (flow.length && (packet.length < flow.length->first || packet.length > flow.length->last)) return false;
  if (flow.dscp && (flow.dscp->values & (uint64_t{1} << packet.dscp)) == 0) return false;
  if (flow.fragment) {
    const bool asks_none = (flow.fragment->values & 1) != 0, asks_first = (flow.fragment->values & 2) != 0,
               asks_later = (flow.fragment->values & 4) != 0;
    switch (packet.fragment) {
      case PacketKeys::Fragment::none:
        return asks_none;
      case PacketKeys::Fragment::first:
        return asks_first;
      case PacketKeys::Fragment::later:
        return asks_later;
    }
  }
  return true;
}

bool any_flow_matches(const std::vector<control::Flow>& flows, const PacketKeys& packet, uint64_t now) {
  for (const control::Flow& flow : flows) {
    if (flow_matches(flow, packet, now)) return true;
  }
  return false;
}

// Steps 3 to 5.
Classified judge(const control::Policy& policy, std::vector<unsigned> matched) {
  Classified answer;
  answer.matched = std::move(matched);
  for (unsigned l : answer.matched) {
    if (policy.lists[l].action == WEIR_PASS) {
      answer.credited = static_cast<int>(l);
      answer.action = WEIR_PASS;
      return answer;
    }
  }
  for (unsigned l : answer.matched) {
    if (policy.lists[l].mode == WEIR_ENFORCE) {
      answer.credited = static_cast<int>(l);
      answer.action = WEIR_DROP;
      return answer;
    }
  }
  answer.action = policy.default_action;
  return answer;
}

// Every layer is judged alone; what they say together.
ClassifiedFrame unite(const control::Policy& policy, const std::vector<Classified>& layers) {
  std::set<unsigned> matched, would_drop, droppers;
  for (const Classified& layer : layers) {
    const bool any_pass = std::any_of(layer.matched.begin(), layer.matched.end(),
                                      [&](unsigned l) { return policy.lists[l].action == WEIR_PASS; });
    for (const unsigned l : layer.matched) {
      matched.insert(l);
      if (!any_pass) (policy.lists[l].mode == WEIR_MONITOR ? would_drop : droppers).insert(l);
    }
  }
  ClassifiedFrame frame;
  frame.matched.assign(matched.begin(), matched.end());
  frame.would_drop.assign(would_drop.begin(), would_drop.end());
  frame.droppers.assign(droppers.begin(), droppers.end());
  for (const Classified& layer : layers) {
    if (layer.action != WEIR_DROP) continue;
    frame.action = WEIR_DROP;
    frame.credited = layer.credited;
    return frame;
  }
  for (const Classified& layer : layers) {
    if (layer.credited < 0) continue;
    frame.credited = layer.credited;
    break;
  }
  return frame;
}

}  // namespace

Classified classify_linear(const control::Policy& policy, const PacketKeys& packet, uint64_t now) {
  std::vector<unsigned> matched;
  for (unsigned l = 0; l < policy.lists.size(); l++) {
    const control::List& list = policy.lists[l];
    const control::Entries& written = *list.as_written();
    const bool entry_matches = packet.family == 4 ? any_entry_matches(list, written.v4, packet, now)
                                                  : any_entry_matches(list, written.v6, packet, now);
    if (entry_matches || any_flow_matches(list.flows(), packet, now)) matched.push_back(l);
  }
  return judge(policy, std::move(matched));
}

ClassifiedFrame classify_frame(const control::Policy& policy, std::span<const PacketKeys> layers, uint64_t now) {
  assert(!layers.empty());
  std::vector<Classified> verdicts;
  for (const PacketKeys& layer : layers) verdicts.push_back(classify_linear(policy, layer, now));
  return unite(policy, verdicts);
}

size_t Classifier::AddressHash::operator()(Ipv6 address) const {
  return static_cast<size_t>(address) ^ static_cast<size_t>(address >> 64) * 0x9e3779b97f4a7c15u;
}

Classifier::Classifier(const control::Policy& policy) : policy_(policy) {
  const auto add = [](Family& family, const auto& entries, unsigned list) {
    for (const auto entry : entries) {
      const Claim claim = {entry.first, entry.last, entry.port, entry.directions, entry.expires, list};
      if (entry.first == entry.last) {
        family.hosts.emplace(entry.first, claim);
      } else {
        family.ranges.push_back(claim);
      }
    }
  };
  for (unsigned l = 0; l < policy.lists.size(); l++) {
    add(v4_, policy.lists[l].as_written()->v4, l);
    add(v6_, policy.lists[l].as_written()->v6, l);
  }
  for (Family* family : {&v4_, &v6_}) {
    std::sort(family->ranges.begin(), family->ranges.end(),
              [](const Claim& a, const Claim& b) { return a.first < b.first; });
    Ipv6 highest = 0;
    for (const Claim& claim : family->ranges) {
      highest = std::max(highest, claim.last);
      family->highest_so_far.push_back(highest);
    }
  }
}

void Classifier::match_side(const Family& family, const PacketKeys& packet, uint8_t side, uint64_t now,
                            std::vector<bool>& lists) const {
  const Ipv6 address = address_on(packet, side);
  const auto consider = [&](const Claim& claim) {
    if (!is_live(claim.expires, now)) return;
    if ((claim.directions & control::kNamesSide) == 0 && is_own(policy_.lists[claim.list], packet.family, address))
      return;
    if (side_matches(packet, side, claim.first, claim.last, claim.port, claim.directions)) lists[claim.list] = true;
  };
  const auto [begin, end] = family.hosts.equal_range(address);
  for (auto host = begin; host != end; ++host) consider(host->second);
  // Ranges that begin at or before the address, backwards, until none of those left reaches it.
  const auto after = std::upper_bound(family.ranges.begin(), family.ranges.end(), address,
                                      [](Ipv6 value, const Claim& claim) { return value < claim.first; });
  for (auto i = static_cast<size_t>(after - family.ranges.begin()); i > 0; i--) {
    if (family.highest_so_far[i - 1] < address) break;
    consider(family.ranges[i - 1]);
  }
}

Classified Classifier::classify(const PacketKeys& packet, uint64_t now) const {
  std::vector<bool> lists(policy_.lists.size());
  const Family& family = packet.family == 4 ? v4_ : v6_;
  match_side(family, packet, WEIR_AS_SOURCE, now, lists);
  match_side(family, packet, WEIR_AS_DESTINATION, now, lists);
  std::vector<unsigned> matched;
  for (unsigned l = 0; l < lists.size(); l++) {
    if (lists[l] || any_flow_matches(policy_.lists[l].flows(), packet, now)) matched.push_back(l);
  }
  return judge(policy_, std::move(matched));
}

ClassifiedFrame Classifier::classify_frame(std::span<const PacketKeys> layers, uint64_t now) const {
  assert(!layers.empty());
  std::vector<Classified> verdicts;
  for (const PacketKeys& layer : layers) verdicts.push_back(classify(layer, now));
  return unite(policy_, verdicts);
}

}  // namespace weir::reference
