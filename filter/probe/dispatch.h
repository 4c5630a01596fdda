#pragma once

#include <span>

#include "common/result.h"
#include "filter/kernels/kernels.h"

namespace weir::filter {

// Every set that was compiled in, best first; the last one (scalar) is always usable.
std::span<const Kernels* const> all_kernels();

// The best usable one, or the one WEIR_FORCE_ISA names. An unknown or unusable name is an error, not a fallback.
Result<const Kernels*> choose_kernels();

}  // namespace weir::filter
