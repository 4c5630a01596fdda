// Filters that lose keys by design, so that no blocklist may be one: stable (Deng, Rafiei 2006), generalized (Laufer,
// Velloso, Duarte 2005), retouched (Donnet, Baynat, Friedman 2006), and a filter beside one of what was removed.
#pragma once

#include "tests/reproduce/bit_filters.h"

namespace weir::reproduce {

// Cells of one bit. A key first clears kCleared cells in a row from a random place, then sets its kProbes: the share of
// ones has a limit, and so has the rate, however long the stream is. What is old is forgotten.
class StableBloom {
 public:
  static constexpr unsigned kProbes = 8, kCleared = 8;

  explicit StableBloom(uint64_t bits) : layout_{bits}, words_(bits, kHugePage) {}

  uint64_t bits() const { return layout_.bits; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < kProbes; i++) __builtin_prefetch(words_.get() + (layout_.position(hash, i) >> 6));
  }
  bool check(uint64_t hash) const { return reproduce::check(layout_, words_.get(), hash); }
  bool insert(uint64_t hash) {
    random_ = scatter(random_);
    uint64_t at = reduce(random_, layout_.bits);
    for (unsigned i = 0; i < kCleared; i++) {
      words_.get()[at >> 6] &= ~(uint64_t{1} << (at & 63));
      if (++at == layout_.bits) at = 0;
    }
    mark(layout_, words_.get(), hash);
    return true;
  }

  // A cell of a key that was inserted `age` insertions ago is one: by that key, or by a later one. Age without end
  // gives the share of ones in general.
  static double still_one(double age, double bits) {
    const double limit = double(kProbes) / (kProbes + kCleared);
    return limit + (1 - limit) * std::exp(-double(kProbes + kCleared) * age / bits);
  }
  // After `stream` insertions into an empty filter.
  static double rate(double stream, double bits) {
    const double limit = double(kProbes) / (kProbes + kCleared);
    return std::pow(limit * (1 - std::exp(-double(kProbes + kCleared) * stream / bits)), kProbes);
  }
  // Mean over the last n insertions.
  static double kept(double n, double bits) {
    constexpr int kSteps = 10'000;
    double sum = 0;
    for (int i = 0; i < kSteps; i++) sum += std::pow(still_one(n * (i + 0.5) / kSteps, bits), kProbes);
    return sum / kSteps;
  }

 private:
  Standard<kProbes> layout_;
  Words words_;
  uint64_t random_ = 1;
};

// Two kinds of hash functions: kOn set a bit, kOff clear one, and clearing wins where a key meets itself. Nobody can
// fill it with ones; what an attacker inserts pushes everybody else's keys out instead.
class GeneralizedBloom {
 public:
  static constexpr unsigned kOn = 4, kOff = 4;

  explicit GeneralizedBloom(uint64_t bits) : layout_{bits}, words_(bits, kHugePage) {}

  uint64_t bits() const { return layout_.bits; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < kOn + kOff; i++) __builtin_prefetch(words_.get() + (layout_.position(hash, i) >> 6));
  }
  bool check(uint64_t hash) const {
    uint64_t off[kOff];
    for (unsigned i = 0; i < kOff; i++) {
      off[i] = layout_.position(hash, kOn + i);
      if (bit_at(words_.get(), off[i])) return false;
    }
    for (unsigned i = 0; i < kOn; i++) {
      const uint64_t at = layout_.position(hash, i);
      if (!bit_at(words_.get(), at) && std::find(off, off + kOff, at) == off + kOff) return false;
    }
    return true;
  }
  bool insert(uint64_t hash) {
    for (unsigned i = 0; i < kOn + kOff; i++) {  // those that clear are the last
      const uint64_t at = layout_.position(hash, i), bit = uint64_t{1} << (at & 63);
      if (i < kOn)
        words_.get()[at >> 6] |= bit;
      else
        words_.get()[at >> 6] &= ~bit;
    }
    return true;
  }

  // kOn == kOff: half of the bits are ones in the end, and a bit that a key has written is still so with
  // 1/2 + 1/2 exp(-8 age / m).
  static double rate(double stream, double bits) {
    const double ones = 0.5 * (1 - std::exp(-double(kOn + kOff) * stream / bits));
    return std::pow(ones, kOn) * std::pow(1 - ones, kOff);
  }
  static double kept(double n, double bits) {
    constexpr int kSteps = 10'000;
    double sum = 0;
    for (int i = 0; i < kSteps; i++)
      sum += std::pow(0.5 + 0.5 * std::exp(-double(kOn + kOff) * n * (i + 0.5) / kSteps / bits), kOn + kOff);
    return sum / kSteps;
  }

 private:
  Standard<kOn + kOff> layout_;
  Words words_;
};

// A Bloom filter in which one bit of each stranger that is known to do harm is cleared, and with it the members that
// use this bit.
class RetouchedBloom {
 public:
  static constexpr unsigned kProbes = 8;

  explicit RetouchedBloom(uint64_t bits) : layout_{bits}, words_(bits, kHugePage) {}

  uint64_t bits() const { return layout_.bits; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < kProbes; i++) __builtin_prefetch(words_.get() + (layout_.position(hash, i) >> 6));
  }
  bool check(uint64_t hash) const {
    uint64_t all = 1;
    for (unsigned i = 0; i < kProbes; i++) all &= bit_at(words_.get(), layout_.position(hash, i));
    return all != 0;
  }
  bool insert(uint64_t hash) {
    mark(layout_, words_.get(), hash);
    return true;
  }
  // False: was no false positive.
  bool retouch(uint64_t stranger) {
    if (!check(stranger)) return false;
    const uint64_t at = layout_.position(stranger, 0);
    words_.get()[at >> 6] &= ~(uint64_t{1} << (at & 63));
    return true;
  }
  // With `cleared` of the bits that n keys have set cleared again: a member's bit is one of them with this share.
  static double cleared_share(double cleared, double n, double bits) {
    return cleared / (bits * (1 - std::exp(-double(kProbes) * n / bits)));
  }

 private:
  Standard<kProbes> layout_;
  Words words_;
};

// Keys that were removed go into a second filter. They cannot come back, and its false positives are lost members.
class WithRemoved {
 public:
  static constexpr unsigned kProbes = 8;
  using Filter = BitFilter<Standard<kProbes>>;

  WithRemoved(uint64_t bits, uint64_t removed_bits) : present_({bits}, bits), removed_({removed_bits}, removed_bits) {}

  uint64_t bits() const { return present_.bits() + removed_.bits(); }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { present_.prefetch(hash); }
  bool check(uint64_t hash) const { return present_.check(hash) && !removed_.check(hash); }
  bool insert(uint64_t hash) { return present_.insert(hash); }
  void remove(uint64_t hash) { removed_.insert(hash); }

 private:
  Filter present_, removed_;
};

}  // namespace weir::reproduce
