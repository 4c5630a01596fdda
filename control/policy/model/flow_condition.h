#pragma once

#include "control/policy/model/policy.h"
#include "filter/format/snapshot.h"

// A flow as a residual, and back.
namespace weir::control {

// All that the flow asks for. Set and `last` are left 0; so is every value that is not asked, so that equal conditions
// are equal bytes.
weir_residual condition_of(const Flow& flow);

// Takes out what a key says already. asked: mask of weir_asks.
void forget(weir_residual& condition, unsigned asked);

// What the residual asks, as the flow that it came from said it.
Flow flow_of(const weir_residual& residual, uint8_t family);

}  // namespace weir::control
