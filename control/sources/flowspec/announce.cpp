#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "control/sources/flowspec/entries.h"
#include "filter/format/packet.h"

namespace weir::control::flowspec {
namespace {

struct Prefix {
  Ipv6 address;
  uint8_t bits;
};

// The fewest prefixes that cover the range.
std::vector<Prefix> prefixes_of(const AddressRange& range, unsigned width) {
  std::vector<Prefix> prefixes;
  Ipv6 first = range.first;
  while (true) {
    unsigned free = 0;  // low bits that the prefix leaves open
    while (free < width) {
      const Ipv6 low = free + 1 == 128 ? ~Ipv6{0} : (Ipv6{1} << (free + 1)) - 1;
      if ((first & low) != 0 || (first | low) > range.last) break;
      free++;
    }
    prefixes.push_back({first, static_cast<uint8_t>(width - free)});
    const Ipv6 end = free == 128 ? ~Ipv6{0} : first | ((Ipv6{1} << free) - 1);
    if (end >= range.last) return prefixes;
    first = end + 1;
  }
}

Operator number(uint8_t asks, uint64_t value, bool is_and = false) {
  const uint8_t bytes = value <= UINT8_MAX ? 1 : value <= UINT16_MAX ? 2 : 4;
  return {is_and, asks, bytes, value};
}

void add_range(std::vector<Operator>& operators, uint64_t first, uint64_t last) {
  if (first == last) {
    operators.push_back(number(kEqual, first));
    return;
  }
  operators.push_back(number(kGreater | kEqual, first));
  operators.push_back(number(kLess | kEqual, last, true));
}

// All components but the addresses.
std::vector<Component> components_of(const Flow& flow) {
  std::vector<Component> components;
  const auto operators = [&](Type type) -> std::vector<Operator>& {
    Component& component = components.emplace_back();
    component.type = type;
    return component.operators;
  };
  if (flow.protocol) operators(Type::protocol) = {number(kEqual, *flow.protocol)};
  if (flow.dport) add_range(operators(Type::destination_port), flow.dport->first, flow.dport->last);
  if (flow.sport) add_range(operators(Type::source_port), flow.sport->first, flow.sport->last);
  if (flow.icmp_type) operators(Type::icmp_type) = {number(kEqual, *flow.icmp_type)};
  if (flow.icmp_code) operators(Type::icmp_code) = {number(kEqual, *flow.icmp_code)};
  if (flow.tcp_flags) {
    std::vector<Operator>& bits = operators(Type::tcp_flags);
    const uint8_t set = flow.tcp_flags->set, clear = static_cast<uint8_t>(flow.tcp_flags->mask & ~set);
    if (set != 0) bits.push_back({false, kMatch, 1, set});
    if (clear != 0) bits.push_back({!bits.empty(), kInverted, 1, clear});
  }
  if (flow.length) {
    std::vector<Operator>& length = operators(Type::length);
    if (flow.length->last == UINT32_MAX) {
      length = {number(kGreater | kEqual, flow.length->first)};
    } else {
      add_range(length, flow.length->first, flow.length->last);
    }
  }
  if (flow.dscp) {
    std::vector<Operator>& dscp = operators(Type::dscp);
    for (unsigned first = 0; first < 64; first++) {
      if ((flow.dscp->values >> first & 1) == 0) continue;
      unsigned last = first;
      while (last < 63 && (flow.dscp->values >> (last + 1) & 1) != 0) last++;
      add_range(dscp, first, last);
      first = last;
    }
  }
  if (flow.fragment) {
    const auto kinds = [&](weir_fragment kind) { return (flow.fragment->values >> kind & 1) != 0; };
    std::vector<Operator>& bits = operators(Type::fragment);
    if (kinds(WEIR_FRAGMENT_NONE)) bits.push_back({false, kInverted, 1, kIsFragment | kFirstFragment});
    if (kinds(WEIR_FRAGMENT_FIRST)) bits.push_back({false, kMatch, 1, kFirstFragment});
    if (kinds(WEIR_FRAGMENT_LATER)) bits.push_back({false, kMatch, 1, kIsFragment});
  }
  return components;
}

Result<void> add_rules(const Flow& flow, Family family, std::vector<Rule>& rules) {
  const unsigned width = address_bits(family);
  const auto prefixes = [&](const std::optional<AddressRange>& range) {
    return range ? prefixes_of(*range, width) : std::vector<Prefix>{{0, 0}};
  };
  const std::vector<Prefix> destinations = prefixes(flow.dst), sources = prefixes(flow.src);
  const size_t n = destinations.size() * sources.size();
  if (rules.size() + n > kMostRules) return Error{fmt::format("it would be more than {} rules", kMostRules)};
  const std::vector<Component> others = components_of(flow);
  for (const Prefix& destination : destinations) {
    for (const Prefix& source : sources) {
      Rule& rule = rules.emplace_back();
      rule.family = family;
      const auto add = [&](Type type, const Prefix& prefix) {
        Component& component = rule.components.emplace_back();
        component.type = type;
        component.address = prefix.address;
        component.prefix_bits = prefix.bits;
      };
      // A rule without any component is none: all addresses are said.
      if (flow.dst || (!flow.src && others.empty())) add(Type::destination, destination);
      if (flow.src) add(Type::source, source);
      rule.components.insert(rule.components.end(), others.begin(), others.end());
    }
  }
  return {};
}

Result<void> add_rules(const Flow& flow, std::vector<Rule>& rules) {
  for (const auto& [family, number] : {std::pair(Family::v4, 4), {Family::v6, 6}}) {
    if (flow.family != 0 && flow.family != number) continue;
    if (Result<void> added = add_rules(flow, family, rules); !added) return added;
  }
  return {};
}

// An entry of one side is a flow; of either side, two.
template <class Addr>
Result<void> add_rules(const Entry<Addr>& entry, std::vector<Rule>& rules) {
  for (const weir_direction side : {WEIR_AS_SOURCE, WEIR_AS_DESTINATION}) {
    if ((entry.directions & side) == 0) continue;
    Flow flow;
    flow.family = kAddrBits<Addr> == 32 ? 4 : 6;
    const bool is_source = side == WEIR_AS_SOURCE;
    (is_source ? flow.src : flow.dst) = AddressRange{entry.first, entry.last};
    if (entry.port != 0) (is_source ? flow.sport : flow.dport) = PortRange{entry.port, entry.port};
    if (Result<void> added = add_rules(flow, rules); !added) return added;
  }
  return {};
}

}  // namespace

Result<std::vector<Rule>> rules_of(const ListDraft& entries) {
  std::vector<Rule> rules;
  const auto add_all = [&](const auto& those) -> Result<void> {
    for (const auto& entry : those) {
      if (Result<void> added = add_rules(entry, rules); !added) return added;
    }
    return {};
  };
  Result<void> added = add_all(entries.v4);
  if (added) added = add_all(entries.v6);
  if (added) added = add_all(entries.flows);
  if (!added) return Error{added.error()};
  return rules;
}

}  // namespace weir::control::flowspec
