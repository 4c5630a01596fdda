#pragma once

#include <vector>

#include "control/compile/merge/merge.h"
#include "control/compile/plan/levels.h"
#include "filter/build/builder.h"

// Merged prefixes become the content of the planned shapes. Keys that coincide after expansion unite their rules.
namespace weir::control {

// How many keys expand_keys will make, without making them. A double: 2^128 is possible.
double count_keys(const Merged& merged, const Level& level);

// One hashed shape (not a bitmap); its layout and rate are left to the caller. Unions of rules go into book, which
// holds merged's already.
filter::KeyTable expand_keys(const Merged& merged, const Level& level, RuleBook& book);

// The bitmap's content, from all IPv4 prefixes of any port of the given lengths (each at most kBitmapBits).
std::vector<filter::NetworkRun> expand_networks(const Merged& merged, const std::vector<unsigned>& lengths,
                                                RuleBook& book);

}  // namespace weir::control
