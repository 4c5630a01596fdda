#pragma once

#include <cstdint>
#include <vector>

#include "control/policy/model/policy.h"
#include "tests/agreement/choices.h"

namespace weir::agreement {

using Frame = std::vector<uint8_t>;

// Frames for a policy: every encapsulation of docs/operate/dataplane.md, with addresses and ports that its entries name
// or nearly name; some of them cut, with changed bytes, or lying about their lengths.
class FrameMaker {
 public:
  explicit FrameMaker(const control::Policy& policy);

  // Of a hundred addresses, so many are those of the policy or nearly; the others are strangers.
  void set_known_percent(unsigned percent) { known_percent_ = percent; }

  // Frame is cleared first; it keeps its memory from frame to frame.
  void make(Choices& choices, Frame& frame) const;

 private:
  std::vector<Ipv6> addresses_[2];  // of IPv4, of IPv6
  unsigned known_percent_ = 50;
  std::vector<uint16_t> ports_;
};

}  // namespace weir::agreement
