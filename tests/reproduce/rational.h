// The Rational Bloom filter and the Variably-Sized Block Bloom filter of Walther, Mansour, Zollner, Werner
// (docs/develop/papers.md), and the rates that follow from their construction.
#pragma once

#include <cmath>

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

// Which hash decides whether a key uses the last probe (Algorithm 1 of the paper).
enum class Activation { reused, independent };  // the last ordinary probe's | one of its own

// floor(k) probes for all keys, one more for the fraction k - floor(k) of them.
struct Rational {
  uint64_t bits;
  double k;
  Activation activation = Activation::independent;
  uint64_t key_salt = 0;  // another one: other hash functions

  uint64_t position(uint64_t hash, unsigned i) const { return reduce(scatter(hash ^ scatter(key_salt + i)), bits); }

  unsigned probes(uint64_t hash) const {
    const auto always = static_cast<unsigned>(k);
    const double fraction = k - always;
    if (fraction == 0) return always;
    const bool reuse = activation == Activation::reused && always > 0;  // k < 1 has no ordinary probe
    const uint64_t drawn = reuse ? position(hash, always - 1) : position(hash, 1000);
    return always + (static_cast<double>(drawn) < fraction * static_cast<double>(bits));
  }
  void mark(uint64_t* words, uint64_t hash) const {
    for (unsigned i = 0; i < probes(hash); i++) {
      const uint64_t at = position(hash, i);
      words[at >> 6] |= uint64_t{1} << (at & 63);
    }
  }
  bool check(const uint64_t* words, uint64_t hash) const {
    for (unsigned i = 0; i < probes(hash); i++) {
      if (!bit_at(words, position(hash, i))) return false;
    }
    return true;
  }
};

// Fraction of ones after n keys of k bits each.
inline double fill(double n, double m, double k) {
  const double always = std::floor(k), fraction = k - always;
  return 1 - std::pow(std::pow(1 - 1 / m, always) * (1 - fraction / m), n);
}

// A stranger uses floor(k) or floor(k) + 1 probes: the rate is the mixture of two rates, not the rate at k.
inline double mixture_rate(double n, double m, double k) {
  const double always = std::floor(k), fraction = k - always, r = fill(n, m, k);
  return (1 - fraction) * std::pow(r, always) + fraction * std::pow(r, always + 1);
}

// What the paper expects: the formula at a real k.
inline double continuous_rate(double n, double m, double k) {
  return std::pow(fill(n, m, k), k);
}

}  // namespace weir::reproduce
