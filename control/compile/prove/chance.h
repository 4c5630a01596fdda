#pragma once

#include <cmath>

#include "filter/format/snapshot.h"

namespace weir::control {

// Two numbers of every filter are held to bands, its set bits and the hits of absent keys, and one of every table of a
// gate. A sound one leaves one of the ends by chance less often than this: over all of a publication, once in 10^9.
constexpr double kChance = 1e-9 / (4 * WEIR_MAX_SHAPES + 2 * WEIR_GATES * WEIR_MAX_GATE_TABLES);

// How far a sum of trials of this variance, none of them further from its mean than `most`, may lie from its mean:
// Bernstein's inequality at kChance. Right also when hardly any are expected and the tail is Poisson's.
inline double bernstein(double most, double variance) {
  const double exponent = -std::log(kChance);
  const double linear = most * exponent / 3;
  return linear + std::sqrt(linear * linear + 2 * exponent * variance);
}

}  // namespace weir::control
