#include "tests/reference/classifier.h"

#include <algorithm>

namespace weir::reference {
namespace {

Ipv6 address_on(const PacketKeys& packet, uint8_t side) {
  return side == WEIR_AS_SOURCE ? packet.src : packet.dst;
}

// Does one side of the packet match? An entry with a port wants that port on the same side as its address.
bool side_matches(const PacketKeys& packet, uint8_t side, Ipv6 first, Ipv6 last, uint16_t port, uint8_t directions) {
  if ((directions & side) == 0) return false;
  const Ipv6 address = address_on(packet, side);
  if (address < first || address > last) return false;
  if (port == 0) return true;
  return packet.has_ports && port == (side == WEIR_AS_SOURCE ? packet.sport : packet.dport);
}

template <class Addr>
bool any_entry_matches(const std::vector<control::Entry<Addr>>& entries, const PacketKeys& packet) {
  for (const control::Entry<Addr>& entry : entries) {
    for (const uint8_t side : {WEIR_AS_SOURCE, WEIR_AS_DESTINATION}) {
      if (side_matches(packet, side, entry.first, entry.last, entry.port, entry.directions)) return true;
    }
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

}  // namespace

Classified classify_linear(const control::Policy& policy, const PacketKeys& packet) {
  std::vector<unsigned> matched;
  for (unsigned l = 0; l < policy.lists.size(); l++) {
    const control::List& list = policy.lists[l];
    const bool match = packet.family == 4 ? any_entry_matches(list.v4, packet) : any_entry_matches(list.v6, packet);
    if (match) matched.push_back(l);
  }
  return judge(policy, std::move(matched));
}

size_t Classifier::AddressHash::operator()(Ipv6 address) const {
  return static_cast<size_t>(address) ^ static_cast<size_t>(address >> 64) * 0x9e3779b97f4a7c15u;
}

Classifier::Classifier(const control::Policy& policy) : policy_(policy) {
  const auto add = [](Family& family, const auto& entries, unsigned list) {
    for (const auto& entry : entries) {
      const Claim claim = {entry.first, entry.last, entry.port, entry.directions, list};
      if (entry.first == entry.last) {
        family.hosts.emplace(entry.first, claim);
      } else {
        family.ranges.push_back(claim);
      }
    }
  };
  for (unsigned l = 0; l < policy.lists.size(); l++) {
    add(v4_, policy.lists[l].v4, l);
    add(v6_, policy.lists[l].v6, l);
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

void Classifier::match_side(const Family& family, const PacketKeys& packet, uint8_t side,
                            std::vector<bool>& lists) const {
  const auto consider = [&](const Claim& claim) {
    if (side_matches(packet, side, claim.first, claim.last, claim.port, claim.directions)) lists[claim.list] = true;
  };
  const Ipv6 address = address_on(packet, side);
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

Classified Classifier::classify(const PacketKeys& packet) const {
  std::vector<bool> lists(policy_.lists.size());
  const Family& family = packet.family == 4 ? v4_ : v6_;
  match_side(family, packet, WEIR_AS_SOURCE, lists);
  match_side(family, packet, WEIR_AS_DESTINATION, lists);
  std::vector<unsigned> matched;
  for (unsigned l = 0; l < lists.size(); l++) {
    if (lists[l]) matched.push_back(l);
  }
  return judge(policy_, std::move(matched));
}

}  // namespace weir::reference
