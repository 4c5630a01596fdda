#pragma once

#include <cstdint>

#include "common/ip.h"
#include "control/policy/model/time_text.h"

namespace weir::control {

// Entry::source of what `controlctl add` put into a list. It has no line: Entry::line is 0.
constexpr uint8_t kJournalSource = 255;

// One predicate, normalised: an inclusive address range (a host is first == last; a prefix is its range), optionally
// with a port. It matches a packet whose source (address and source port) or destination (address and destination
// port) lies in it, as directions say.
template <class Addr>
struct Entry {
  Addr first;
  Addr last;
  uint32_t line;              // where it was written: 1-based line of the source
  uint16_t port;              // 0 = any
  uint8_t directions;         // mask of weir_direction
  uint8_t source;             // 0 = the policy file, 1..254 = the list's feed files, kJournalSource
  uint32_t expires = kNever;  // Unix seconds: live while now < expires

  bool operator==(const Entry&) const = default;
};

}  // namespace weir::control
