#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "control/compile/compile.h"

// A reload that changes nothing that a snapshot is made of needs no other snapshot: a copy gets the new number.
namespace weir::control {

using InputsDigest = std::array<uint64_t, 2>;  // XXH3-128 (low, high)

// Of all that a policy's snapshot depends on, but for the secret: policies of the same digest
// compile to snapshots that answer alike. Empty: it depends on the time, too, since canaries are proven for every
// moment from now on at which an entry ends.
std::optional<InputsDigest> inputs_digest(const Policy& policy);

// Of what besides the lists' entries and canaries a snapshot depends on: an overlay may stand on one of the same
// digest.
InputsDigest settings_digest(const Policy& policy);

// The bytes of a sealed snapshot under another generation, sealed; the secret is the same. They have been proven, and
// are checked to be those that were. report: of that snapshot.
Result<Compiled> renumber(std::span<const std::byte> snapshot, std::array<uint64_t, 2> digest,
                          const CompileReport& report, wire::Generation generation);

}  // namespace weir::control
