#pragma once

#include <compare>
#include <optional>
#include <vector>

#include "common/result.h"
#include "control/policy/model/policy.h"
#include "filter/format/key_shape.h"

// Which flow shapes a family's flows get: those that name the same fields with the same prefix lengths are of one kind,
// and kinds are joined under what they share until they are few.
namespace weir::control {

enum : unsigned { kSource, kDestination, kSides };

// The least prefix around a range; 0 bits for a side that the flow does not name.
struct Around {
  Ipv6 address = 0;  // IPv4: in the low 32 bits
  uint8_t bits = 0;
  bool exact = true;  // it is the range
};
Around around(const std::optional<AddressRange>& range, uint8_t family);
// Of the family's width, in the low bits.
Ipv6 network_mask(uint8_t family, unsigned bits);

// One flow of one list.
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

// The flows of one shape.
struct Group {
  Kind kind;
  std::vector<const Item*> items;
};

filter::KeyShape shape_of(uint8_t family, const Kind& kind);
filter::Key key_of(filter::KeyShape shape, const Item& item);

// A shape costs a packet one probe, and what follows when an innocent packet has such a key: joined are those that are
// cheaper together, and, while there are more than `wanted`, those that lose least. No key gets more than
// WEIR_MAX_CHAIN residuals. Error: more than `room` groups are left; or so many flows ask alike that no key of theirs
// is short enough: says which, and the way out.
Result<std::vector<Group>> group_flows(const Policy& policy, uint8_t family, const std::vector<const Item*>& items,
                                       size_t wanted, size_t room);

}  // namespace weir::control
