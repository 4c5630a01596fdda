#pragma once

#include <cstdint>
#include <optional>

#include "common/ip.h"
#include "control/policy/model/time_text.h"
#include "filter/format/fields.h"

namespace weir::control {

// Inclusive; IPv4 in the low 32 bits.
struct AddressRange {
  Ipv6 first, last;
  bool operator==(const AddressRange&) const = default;
};

using PortRange = weir_range16;

// An entry with named fields that Entry cannot hold: everything that is given must hold, in one layer of a packet.
struct Flow {
  uint8_t family = 0;  // 4 or 6; 0: both, when neither address is given
  std::optional<AddressRange> src, dst;
#define WEIR_FLOW_MEMBER(name, NAME, kind, needs, member, order) std::optional<weir_##kind> name;
  WEIR_FIELDS(WEIR_FLOW_MEMBER)  // protocol, sport, ...: a member for each row of filter/format/fields.h
#undef WEIR_FLOW_MEMBER
  uint32_t expires = kNever;
  uint32_t line = 0;
  uint8_t source = 0;  // as Entry::source: the policy file or the journal; feeds have no flows

  bool operator==(const Flow&) const = default;
};

}  // namespace weir::control
