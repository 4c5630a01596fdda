// Bloom filters as bit positions, and the ways of filling and asking them: one key at a time, a batch whose lines are
// all prefetched, and a batch in phases. The keys are numbers, their hash is ideal and nearly free (measure.h).
#pragma once

#include <cmath>

#include "tests/reproduce/measure.h"

namespace weir::reproduce {

// K bits anywhere in m (Bloom 1970). Double hashing, h + i d (Kirsch & Mitzenmacher 2006), with 64 bits of each.
template <unsigned K>
struct Standard {
  static constexpr unsigned kProbes = K, kLines = K;  // bits, and the cache lines that they are in
  uint64_t bits;
  uint64_t position(uint64_t hash, unsigned i) const { return reduce(hash + i * (scatter(hash) | 1), bits); }
};

// Enhanced double hashing (Dillinger, Manolios 2004): the step grows by one with each probe.
template <unsigned K>
struct EnhancedDouble {
  static constexpr unsigned kProbes = K, kLines = K;
  uint64_t bits;
  uint64_t position(uint64_t hash, unsigned i) const {
    const uint64_t cubic = uint64_t{i} * (i * i - 1) / 6;
    return reduce(hash + i * scatter(hash) + (cubic << 40), bits);  // reduce() takes the high bits: let it move them
  }
};

// Triple hashing (the same authors): h + i d + i (i - 1) / 2 e.
template <unsigned K>
struct TripleHashing {
  static constexpr unsigned kProbes = K, kLines = K;
  uint64_t bits;
  uint64_t position(uint64_t hash, unsigned i) const {
    const uint64_t step = scatter(hash);
    return reduce(hash + i * step + uint64_t{i} * (i - 1) / 2 * scatter(step), bits);
  }
};

// Each of the K hash functions has a range of m / K bits of its own: partitioned or sliced.
template <unsigned K>
struct Sliced {
  static constexpr unsigned kProbes = K, kLines = K;
  uint64_t bits;
  uint64_t position(uint64_t hash, unsigned i) const {
    const uint64_t slice = bits / K;
    return i * slice + reduce(hash + i * (scatter(hash) | 1), slice);
  }
};

// K bits anywhere in one block of 2^B bits: B = 15 is a page (Zawierucha), B = 9 a cache line (Putze, Sanders,
// Singler).
template <unsigned K, unsigned B>
struct Blocked {
  static constexpr unsigned kProbes = K, kLines = B <= 9 ? 1 : K;
  uint64_t blocks;
  static Blocked of_bits(uint64_t bits) { return {(bits + (1u << B) - 1) >> B}; }
  uint64_t position(uint64_t hash, unsigned i) const {
    // A second hash: were the bits in the block taken from the low half of the hash that chose the block, n/2^32 of the
    // strangers would share all of them with a member. Then its products with odd constants, as in filter/layouts.
    const uint64_t bit = scatter(hash) * (scatter(i) | 1) >> (64 - B);
    return reduce(hash, blocks) << B | bit;
  }
};
template <unsigned K>
using PageBlocked = Blocked<K, 15>;
template <unsigned K>
using LineBlocked = Blocked<K, 9>;

inline uint64_t bit_at(const uint64_t* words, uint64_t position) {
  return words[position >> 6] >> (position & 63) & 1;
}

// Layouts are passed by value: behind a reference they might be changed by the stores, and would be read again.
template <class Layout>
void mark(Layout layout, uint64_t* words, uint64_t hash) {
  for (unsigned i = 0; i < Layout::kProbes; i++) {
    const uint64_t position = layout.position(hash, i);
    words[position >> 6] |= uint64_t{1} << (position & 63);
  }
}

// Stops at the first zero, as the papers' programs do.
template <class Layout>
bool check(Layout layout, const uint64_t* words, uint64_t hash) {
  for (unsigned i = 0; i < Layout::kProbes; i++) {
    if (!bit_at(words, layout.position(hash, i))) return false;
  }
  return true;
}

// first, n: the keys first .. first + n - 1.
template <class Layout>
void insert_plain(Layout layout, uint64_t* words, uint64_t first, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) mark(layout, words, scatter(first + i));
}

constexpr unsigned kBurst = 64;    // keys whose lines are prefetched together
constexpr unsigned kPhased = 128;  // early exit in phases wants large bursts

template <class Layout>
void insert_prefetched(Layout layout, uint64_t* words, uint64_t first, uint64_t n) {
  for (uint64_t at = 0; at < n; at += kBurst) {
    const auto burst = static_cast<unsigned>(std::min<uint64_t>(kBurst, n - at));
    uint64_t position[kBurst * Layout::kProbes];
    for (unsigned key = 0, p = 0; key < burst; key++) {
      const uint64_t hash = scatter(first + at + key);
      for (unsigned i = 0; i < Layout::kProbes; i++, p++) {
        position[p] = layout.position(hash, i);
        __builtin_prefetch(words + (position[p] >> 6), 1);
      }
    }
    for (unsigned p = 0; p < burst * Layout::kProbes; p++) words[position[p] >> 6] |= uint64_t{1} << (position[p] & 63);
  }
}

// All three return how many of the keys may be present.
template <class Layout>
uint64_t count_plain(Layout layout, const uint64_t* words, uint64_t first, uint64_t n) {
  uint64_t found = 0;
  for (uint64_t i = 0; i < n; i++) found += check(layout, words, scatter(first + i));
  return found;
}

template <class Layout>
uint64_t count_prefetched(Layout layout, const uint64_t* words, uint64_t first, uint64_t n) {
  uint64_t found = 0;
  for (uint64_t at = 0; at < n; at += kBurst) {
    const auto burst = static_cast<unsigned>(std::min<uint64_t>(kBurst, n - at));
    uint64_t position[kBurst * Layout::kProbes];
    for (unsigned key = 0, p = 0; key < burst; key++) {
      const uint64_t hash = scatter(first + at + key);
      for (unsigned i = 0; i < Layout::kProbes; i++, p++) {
        position[p] = layout.position(hash, i);
        __builtin_prefetch(words + (position[p] >> 6));
      }
    }
    for (unsigned key = 0, p = 0; key < burst; key++) {
      uint64_t all = 1;
      for (unsigned i = 0; i < Layout::kProbes; i++, p++) all &= bit_at(words, position[p]);
      found += all;
    }
  }
  return found;
}

// Probe i of the whole burst, then probe i + 1 of those that are left. Without branches on what memory says.
template <class Layout>
uint64_t count_phased(Layout layout, const uint64_t* words, uint64_t first, uint64_t n) {
  uint64_t found = 0;
  for (uint64_t at = 0; at < n; at += kPhased) {
    const auto burst = static_cast<unsigned>(std::min<uint64_t>(kPhased, n - at));
    uint64_t hash[kPhased], position[kPhased];
    for (unsigned key = 0; key < burst; key++) {
      hash[key] = scatter(first + at + key);
      position[key] = layout.position(hash[key], 0);
      __builtin_prefetch(words + (position[key] >> 6));
    }
    unsigned left = burst;
    for (unsigned i = 1; i <= Layout::kProbes; i++) {
      unsigned kept = 0;
      for (unsigned key = 0; key < left; key++) {
        const uint64_t is_set = bit_at(words, position[key]);
        const uint64_t next = layout.position(hash[key], i);
        __builtin_prefetch(words + ((is_set ? next : position[key]) >> 6));
        hash[kept] = hash[key];
        position[kept] = next;
        kept += static_cast<unsigned>(is_set);
      }
      left = kept;
    }
    found += left;
  }
  return found;
}

// False-positive rate of k bits a key, n keys in m bits.
inline double standard_rate(double n, double m, double k) {
  return std::pow(1 - std::exp(-k * n / m), k);
}

// The same, blocked: the load of a block is Poisson, the rate a mixture with the second-order term
// (docs/develop/filter.md).
inline double blocked_rate(double n, double blocks, double block_bits, double k) {
  const double mean = n / blocks, spread = 12 * std::sqrt(mean) + 12;
  double rate = 0;
  for (double j = std::max(0.0, std::floor(mean - spread)); j <= mean + spread; j++) {
    const double probability = std::exp(j * std::log(mean) - mean - std::lgamma(j + 1));
    const double q1 = std::pow(1 - 1 / block_bits, k * j), q2 = std::pow(1 - 2 / block_bits, k * j), ones = 1 - q1;
    const double variance = q1 / block_bits + (1 - 1 / block_bits) * q2 - q1 * q1;
    rate += probability * (std::pow(ones, k) + k * (k - 1) / 2 * std::pow(ones, k - 2) * variance);
  }
  return rate;
}

}  // namespace weir::reproduce
