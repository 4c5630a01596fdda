#pragma once

#include <optional>
#include <string>

#include "bpf/program/steer.h"
#include "common/result.h"

// The rules of the steering programs, in the maps that those share by pinning them (docs/operate/steering.md). The
// programs need not run: what is applied before waits for them. Needs root.
namespace weir::xdp {

// Exchanges the rules in one step: each frame meets the old ones or the new ones. Returns when no program reads the old
// ones any more, whose counts are gone with them. steering.taken is not looked at.
Result<void> apply_steering(const std::string& bpf_dir, const weir_steering& steering);
// Back to no rules: everything stays in the kernel.
Result<void> clear_steering(const std::string& bpf_dir);

struct SteeringState {
  bool pinned = false;                 // the maps are there
  std::optional<weir_steering> rules;  // with the counts of all processors; empty: none are applied
  weir_steer_totals totals = {};       // of all processors
};
Result<SteeringState> read_steering(const std::string& bpf_dir);

}  // namespace weir::xdp
