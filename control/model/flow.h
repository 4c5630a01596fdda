#pragma once

#include <cstdint>
#include <optional>

#include "common/ip.h"
#include "control/model/time_text.h"

namespace weir::control {

// Inclusive; IPv4 in the low 32 bits.
struct AddressRange {
  Ipv6 first, last;
  bool operator==(const AddressRange&) const = default;
};

struct PortRange {
  uint16_t first, last;  // inclusive, 1..65535
  bool operator==(const PortRange&) const = default;
};

// An entry with named fields that Entry cannot hold: everything that is given must hold, in one layer of a packet.
struct Flow {
  uint8_t family = 0;  // 4 or 6; 0: both, when neither address is given
  std::optional<AddressRange> src, dst;
  std::optional<uint8_t> protocol;
  std::optional<PortRange> sport, dport;        // of packets that have ports
  std::optional<uint8_t> icmp_type, icmp_code;  // of packets that have an ICMP header: protocol 1 or 58
  uint8_t tcp_set = 0, tcp_mask = 0;  // (flags & mask) == set, of packets that have TCP flags; mask 0: not asked
  uint32_t expires = kNever;
  uint32_t line = 0;  // always of the policy file
};

}  // namespace weir::control
