#pragma once

#include <string>
#include <vector>

#include "tests/hostile/variants.h"

// Snapshots that are hostile by design, one for each thing that an enforcer loops over or believes: complete, sealed
// and with the right digest, so that nothing but the validator, or a bound of the enforcer's own, stands in their way.
namespace weir::hostile {

struct Kind {
  std::string name;
  Bytes base;      // of an overlay; a snapshot: empty
  Bytes snapshot;  // or overlay
  bool is_sound;   // the format allows it, so it may be enforced: with a bound on the work
};

// Generations are {epoch, first}, {epoch, first + 1}, ...: a base and its overlay take two.
std::vector<Kind> hand_made(uint64_t epoch, uint64_t first);

// Bits and words that an enforcer sets for it, and slots that it reads, at most. Nothing: it is refused, and why says
// by which check.
struct Work {
  bool refused = false;
  std::string why;
  uint64_t steps = 0;
};
Work work_of(const Kind& kind);

// The bound of an enforcer's work for it: a constant, and a step for each byte.
uint64_t most_steps(const Kind& kind);

}  // namespace weir::hostile
