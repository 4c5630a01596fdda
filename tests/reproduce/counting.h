// Filters that count, so that keys can be deleted: one counter in place of each bit (Fan, Cao, Almeida, Broder 2000),
// the same by variable increments (Rottenstreich, Kanizo, Keslassy 2012), and d-left hashing of fingerprints (Bonomi,
// Mitzenmacher, Panigrahy, Singh, Varghese 2006).
#pragma once

#include <emmintrin.h>

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

class CountingBloom {
 public:
  static constexpr unsigned kProbes = 8, kCounterBits = 4, kMax = 15;

  explicit CountingBloom(uint64_t counters) : layout_{counters}, words_(counters * kCounterBits, kHugePage) {}

  uint64_t bits() const { return layout_.bits * kCounterBits; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < kProbes; i++) __builtin_prefetch(words_.get() + (layout_.position(hash, i) >> 4));
  }
  bool check(uint64_t hash) const {
    bool all = true;
    for (unsigned i = 0; i < kProbes; i++) all &= counter(layout_.position(hash, i)) != 0;
    return all;
  }
  // A counter that is full stays full: nobody knows how many keys it stands for.
  bool insert(uint64_t hash) {
    for (unsigned i = 0; i < kProbes; i++) {
      const uint64_t at = layout_.position(hash, i);
      if (counter(at) < kMax) words_.get()[at >> 4] += one(at);
    }
    return true;
  }
  void erase(uint64_t hash) {
    for (unsigned i = 0; i < kProbes; i++) {
      const uint64_t at = layout_.position(hash, i), count = counter(at);
      if (count > 0 && count < kMax) words_.get()[at >> 4] -= one(at);
    }
  }

 private:
  static uint64_t one(uint64_t at) { return uint64_t{1} << (at & 15) * kCounterBits; }
  uint64_t counter(uint64_t at) const { return words_.get()[at >> 4] >> (at & 15) * kCounterBits & kMax; }

  Standard<kProbes> layout_;
  Words words_;
};

// Counters of a byte. Each of a key's counters grows by 4, 5, 6 or 7, as the key's hash says. A counter that holds less
// than the key's increment and 4 more, and not just that increment, does not hold the key: the sum of what other keys
// have added is one of 4..7 or at least 8.
class VariableIncrements {
 public:
  static constexpr unsigned kProbes = 6, kLeast = 4, kMax = 255;

  explicit VariableIncrements(uint64_t counters) : layout_{counters}, words_(counters * 8, kHugePage) {}

  uint64_t bits() const { return layout_.bits * 8; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < kProbes; i++) __builtin_prefetch(counters() + layout_.position(hash, i));
  }
  bool check(uint64_t hash) const {
    bool all = true;
    for (unsigned i = 0; i < kProbes; i++) {
      const unsigned count = counters()[layout_.position(hash, i)], own = increment(hash, i);
      all &= count == own || count >= own + kLeast;
    }
    return all;
  }
  bool insert(uint64_t hash) {
    for (unsigned i = 0; i < kProbes; i++) {
      uint8_t& count = counters()[layout_.position(hash, i)];
      count = static_cast<uint8_t>(std::min(count + increment(hash, i), kMax));
    }
    return true;
  }
  void erase(uint64_t hash) {
    for (unsigned i = 0; i < kProbes; i++) {
      uint8_t& count = counters()[layout_.position(hash, i)];
      if (count < kMax && count >= increment(hash, i)) count = static_cast<uint8_t>(count - increment(hash, i));
    }
  }

  // By the Poisson number of keys in a counter: one key has the stranger's increment with 1/4; two agree with it in 54
  // of 64 cases; three always do.
  static double rate(double n, double counters) {
    const double load = kProbes * n / counters, none = std::exp(-load);
    return std::pow(1 - none * (1 + load * (1 - 1 / 4.0) + load * load / 2 * (1 - 54 / 64.0)), kProbes);
  }

 private:
  static unsigned increment(uint64_t hash, unsigned i) {
    return kLeast + static_cast<unsigned>(scatter(hash + 0x5bd1e995) >> 2 * i & 3);
  }
  uint8_t* counters() const { return reinterpret_cast<uint8_t*>(words_.get()); }

  Standard<kProbes> layout_;
  Words words_;
};

// Four subtables of buckets of eight cells; a cell is a 14-bit remainder and a 2-bit counter. A key's (bucket,
// remainder) is mapped to each subtable by a permutation, so that keys that meet in one cell share all of them and
// deleting is safe (section 3.2 there). The permutations here shift the bucket by a hash of the remainder: that allows
// any number of buckets.
class DLeftCounting {
 public:
  static constexpr unsigned kTables = 4, kCells = 8, kRemainderBits = 14;

  explicit DLeftCounting(uint64_t buckets) : buckets_(buckets), words_(bits(), kHugePage) {}
  static uint64_t buckets_for(uint64_t n) { return n / (6 * kTables) + 1; }  // six of eight cells in use, as there

  uint64_t bits() const { return buckets_ * kTables * kCells * 16; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned t = 0; t < kTables; t++) __builtin_prefetch(bucket(hash, t));
  }
  bool check(uint64_t hash) const {
    bool found = false;
    for (unsigned t = 0; t < kTables; t++) found |= holds(bucket(hash, t), tag(hash));
    return found;
  }
  bool insert(uint64_t hash) {
    uint16_t* emptiest = nullptr;
    unsigned most_empty = 0;
    for (unsigned t = 0; t < kTables; t++) {
      uint16_t* cells = bucket(hash, t);
      if (uint16_t* cell = find(cells, tag(hash))) {
        if ((*cell & 3) < 3) ++*cell;
        return true;
      }
      const auto empty = static_cast<unsigned>(std::count(cells, cells + kCells, uint16_t{0}));
      if (empty > most_empty) most_empty = empty, emptiest = cells;  // ties go left
    }
    if (emptiest == nullptr) return false;
    *std::find(emptiest, emptiest + kCells, uint16_t{0}) = static_cast<uint16_t>(tag(hash) + 1);
    return true;
  }
  void erase(uint64_t hash) {
    for (unsigned t = 0; t < kTables; t++) {
      uint16_t* cell = find(bucket(hash, t), tag(hash));
      if (cell == nullptr) continue;
      if ((*cell & 3) == 1)
        *cell = 0;
      else if ((*cell & 3) == 2)
        --*cell;  // 3 stays: it may stand for more
      return;
    }
  }

 private:
  static uint16_t tag(uint64_t hash) { return static_cast<uint16_t>(hash << 2); }  // remainder, counter 0
  uint16_t* bucket(uint64_t hash, unsigned table) const {
    uint64_t at = reduce(hash, buckets_);
    if (table > 0) at += reduce(scatter(tag(hash) + table), buckets_);
    if (at >= buckets_) at -= buckets_;
    return reinterpret_cast<uint16_t*>(words_.get()) + (table * buckets_ + at) * kCells;
  }
  static bool is(uint16_t cell, uint16_t tag) { return static_cast<uint16_t>(cell - tag - 1) < 3; }  // counter 1..3
  static bool holds(const uint16_t* cells, uint16_t tag) {  // is() for eight cells; d < 3 is max(d - 2, 0) == 0
    const __m128i d = _mm_sub_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(cells)),
                                    _mm_set1_epi16(static_cast<int16_t>(tag + 1)));
    const __m128i rest = _mm_subs_epu16(d, _mm_set1_epi16(2));
    return _mm_movemask_epi8(_mm_cmpeq_epi16(rest, _mm_setzero_si128())) != 0;
  }
  static uint16_t* find(uint16_t* cells, uint16_t tag) {
    uint16_t* cell = std::find_if(cells, cells + kCells, [tag](uint16_t value) { return is(value, tag); });
    return cell == cells + kCells ? nullptr : cell;
  }

  uint64_t buckets_;
  Words words_;
};

}  // namespace weir::reproduce
