#pragma once

#include <string>

#include "common/ip.h"
#include "control/policy/model/policy.h"

// Entries as one line of canonical text, for messages and `explain`.
namespace weir::control {

// 203.0.113.7, 203.0.113.0/24, 203.0.113.10-203.0.113.99, 203.0.113.7:443, [2001:db8::7]:443. port 0 = any.
std::string range_text(Ipv4 first, Ipv4 last, uint16_t port);
std::string range_text(Ipv6 first, Ipv6 last, uint16_t port);

// The same of an entry in a list with this `match` (mask of weir_direction); one that names its side is a flow's text:
// src 203.0.113.7 sport 80. Without its expiry.
template <class Addr>
std::string entry_text(const Entry<Addr>& entry, uint8_t match) {
  if (entry.sides() == match) return range_text(entry.first, entry.last, entry.port);
  const bool is_source = entry.sides() == WEIR_AS_SOURCE;
  std::string text = (is_source ? "src " : "dst ") + range_text(entry.first, entry.last, 0);
  if (entry.port != 0) text += (is_source ? " sport " : " dport ") + std::to_string(entry.port);
  return text;
}

// What stands behind an entry: ` expires 2026-12-01T00:00:00Z`; nothing when it never does.
std::string expiry_text(uint32_t expires);

// An entry as people are shown it, wherever its directions are told beside it: its range, and when it expires.
template <class Addr>
std::string shown_text(const Entry<Addr>& entry) {
  return range_text(entry.first, entry.last, entry.port) + expiry_text(entry.expires);
}

// Everything that is asked, in this order:
//   src 10.0.0.0/8 dst 203.0.113.9 tcp sport 53 dport 8000-8010 tcp-flags syn/syn,ack expires 2026-12-01T00:00:00Z
//   dst 2001:db8::9 icmpv6 icmp-type 128 icmp-code 0
// A protocol without a name is `proto 200`; TCP flags are SET/MASK.
std::string flow_text(const Flow& flow);
inline std::string shown_text(const Flow& flow) {
  return flow_text(flow);
}
// The same as `controlctl add` takes it: a protocol alone is `proto tcp`, since one word is an address there.
std::string flow_line(const Flow& flow);

}  // namespace weir::control
