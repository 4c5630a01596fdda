#pragma once

#include <cstdlib>
#include <set>
#include <string>

#include "control/policy/model/range_text.h"
#include "control/policy/read/policy.h"

// What control/policy/model/policy.h promises of a policy that was accepted.
namespace fuzz {

inline void require(bool holds) {
  if (!holds) abort();
}

template <class Addr>
void require_entries(const weir::control::Rows<Addr>& entries) {
  for (const auto entry : entries) {
    require(entry.first <= entry.last);
    require(entry.sides() != 0 && entry.directions <= (weir::control::kBothDirections | weir::control::kNamesSide));
    require(entry.line >= 1 && entry.source == 0);
    require(!weir::control::range_text(entry.first, entry.last, entry.port).empty());
  }
}

// No entry that names no side holds an address of `own`.
template <class Addr>
void require_cut(const weir::control::Rows<Addr>& entries, const weir::control::Rows<Addr>& own) {
  for (const auto range : own) {
    for (const auto entry : entries) {
      const bool names_side = (entry.directions & weir::control::kNamesSide) != 0;
      require(names_side || entry.last < range.first || entry.first > range.last);
    }
  }
}

template <class Range>
void require_range(const std::optional<Range>& range) {
  if (range) require(range->first <= range->last);
}

// Something is asked that a packet can have.
inline void require_flow(const weir::control::Flow& flow) {
  require(flow.line >= 1);
  if (flow.src || flow.dst) {
    require(flow.family == 4 || flow.family == 6);
  } else {
    require(flow.family == 0);
  }
  require_range(flow.src);
  require_range(flow.dst);
  require_range(flow.sport);
  require_range(flow.dport);
  for (const auto& range : {flow.src, flow.dst}) {
    if (range && flow.family == 4) require(range->last <= UINT32_MAX);
  }
  const bool ports = flow.sport || flow.dport, icmp = flow.icmp_type || flow.icmp_code;
  const bool flags = flow.tcp_flags.has_value();
  // A range of ports may begin with 0; port 0 alone is refused.
  if (flow.sport) require(flow.sport->last >= 1);
  if (flow.dport) require(flow.dport->last >= 1);
  if (flags) require(flow.tcp_flags->mask != 0 && (flow.tcp_flags->set & ~flow.tcp_flags->mask) == 0);
  require(!(icmp && (ports || flags)));
  if (flow.protocol) {
    require(!icmp || flow.protocol == 1 || flow.protocol == 58);
    require(!flags || flow.protocol == 6);
  }
  const bool header = flow.length || flow.dscp || flow.fragment;
  require(flow.src || flow.dst || flow.protocol || ports || icmp || flags || header);
  // What an Entry can hold is one.
  require((flow.src && flow.dst) || flow.protocol || icmp || flags || header || flow.sport || flow.dport);
  require_range(flow.length);
  if (flow.length) require(flow.length->first >= 20);
  if (flow.dscp) require(flow.dscp->values != 0);
  if (flow.fragment) require(flow.fragment->values != 0 && flow.fragment->values < 7);
  require(!flow_text(flow).empty());
}

inline void require_policy(const weir::control::Policy& policy) {
  require(policy.lists.size() <= WEIR_MAX_LISTS);
  require((policy.tunnels & ~WEIR_TUNNELS) == 0);
  std::set<std::string> names;
  for (const weir::control::List& list : policy.lists) {
    require(!list.name.empty() && list.name.size() < WEIR_LIST_NAME_BYTES && names.insert(list.name).second);
    require_entries(list.v4());
    require_entries(list.v6());
    require((list.own == nullptr) || list.action == WEIR_DROP);
    if (list.own != nullptr) {
      require_cut(list.v4(), list.own->entries->v4);
      require_cut(list.v6(), list.own->entries->v6);
    }
    for (const weir::control::Flow& flow : list.flows()) require_flow(flow);
    if (list.ipv6_aggregate == 128) require(list.ipv6_widened == 0);
  }
}

}  // namespace fuzz
