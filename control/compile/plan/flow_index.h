#pragma once

#include "common/result.h"
#include "control/compile/merge/merge.h"
#include "control/policy/model/policy.h"

// index: under which key each flow is looked up. What an entry demands beyond its key becomes a residual.
//
// A flow costs a packet nothing extra where it can stand under an address that is probed anyway: those of few flows
// each do, on the side where fewer flows share the address. The others get flow shapes, keyed by all that they name
// exactly; when that makes too many shapes, those that lose least by it are joined under the fields they share, and the
// residuals ask for the rest.
namespace weir::control {

// Of a family, where kinds can be joined to so few: the others stay for addresses.
constexpr size_t kMaxFlowShapes = WEIR_MAX_SHAPES_PER_FAMILY / 2;

// Adds the flows of all lists to merged: prefixes with conditions, and flow tables. Error: more than WEIR_MAX_CHAIN
// entries differ only in what no key can hold; says which, and the way out.
Result<void> index_flows(const Policy& policy, Merged& merged);

}  // namespace weir::control
