#pragma once

#include <cmath>
#include <cstdint>

#include "filter/format/snapshot.h"

// These functions draw the samples of proofs, and say how far chance may bring them.
namespace weir::control {

// Two numbers of every filter are held to bands, its set bits and the hits of absent keys, and one of every table of a
// gate. A sound one leaves one of the ends by chance less often than this: over all of a publication, once in 10^9.
constexpr double kChance = 1e-9 / (4 * WEIR_MAX_SHAPES + 4 * WEIR_GATES * WEIR_MAX_GATE_TABLES);

// How far a sum of trials of this variance, none of them further from its mean than `most`, may lie from its mean:
// Bernstein's inequality at kChance. Right also when hardly any are expected and the tail is Poisson's.
inline double bernstein(double most, double variance) {
  const double exponent = -std::log(kChance);
  const double linear = most * exponent / 3;
  return linear + std::sqrt(linear * linear + 2 * exponent * variance);
}

// SplitMix64 (Steele, Lea & Flood, "Fast splittable pseudorandom number generators", 2014): samples for proofs, nothing
// secret.
struct SplitMix {
  uint64_t state;

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
};

}  // namespace weir::control
