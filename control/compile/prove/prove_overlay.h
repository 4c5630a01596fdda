#pragma once

#include <vector>

#include "common/result.h"
#include "control/compile/prove/lookup.h"
#include "control/policy/model/policy.h"

namespace weir::control {

// What an overlay is there for: entries that some list has now and had not, or had and has no more, since its base.
struct Changes {
  const std::vector<Entry<Ipv4>>& v4;
  const std::vector<Entry<Ipv6>>& v6;
  bool has_new_flows;
};

// prove, of an overlay together with its base. Of a base everything was proven, so this asks about what changed:
//  - the first and last address of every change, one inside, and those right beside it match exactly the lists that
//    hold them, on each side; no list too few and, unlike in a base, none too many;
//  - entries that expire match until then;
//  - so do addresses from anywhere;
//  - flows, when some were added, and canaries, as in a base.
// Of many changes the addresses inside and beside are asked about for some only.
Result<void> prove_overlay(const Policy& policy, const Enforcing& enforcing, const Changes& changes);

}  // namespace weir::control
