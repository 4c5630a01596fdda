// Sets of short hashes: sorted and Golomb-coded (Putze, Sanders, Singler 2007), and in a table as they are, hash
// compaction (Stern, Dill 1996).
#pragma once

#include <cassert>
#include <cstring>

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

// The keys' hashes in a range of n * 2^kRate values, sorted, their differences in Rice code: kRate low bits and the
// rest in unary. The range is cut into blocks of kBlock keys on average, each decoded on its own from the place that a
// directory of 32 bits a block gives.
class GolombCodedSet {
 public:
  static constexpr unsigned kRate = 8, kBlock = 64;

  explicit GolombCodedSet(uint64_t n) : n_(n), blocks_(n / kBlock + 1) { values_.reserve(n); }

  uint64_t bits() const { return used_ + (blocks_ + 1) * 32; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { __builtin_prefetch(&starts_[block(value(hash))]); }
  REPRODUCE_KEPT void prefetch_next(uint64_t hash) const {
    const uint64_t first = starts_[block(value(hash))] / 8;
    for (unsigned line = 0; line < 2; line++) __builtin_prefetch(code_.data() + first + line * 64);
  }
  bool insert(uint64_t hash) {
    values_.push_back(value(hash));
    return true;
  }
  void finish() {
    std::sort(values_.begin(), values_.end());
    code_.assign(n_ * (kRate + 3) / 8 + blocks_ / 4 + 64, 0);
    starts_.assign(blocks_ + 1, 0);
    uint64_t of_block = 0, previous = 0;
    for (const uint64_t value : values_) {
      for (; of_block < block(value); previous = first_of(of_block)) starts_[++of_block] = static_cast<uint32_t>(used_);
      put(value - previous);
      previous = value;
    }
    while (of_block < blocks_) starts_[++of_block] = static_cast<uint32_t>(used_);
    values_ = {};
  }
  bool check(uint64_t hash) const {
    const uint64_t wanted = value(hash), of_block = block(wanted);
    uint64_t at = starts_[of_block], seen = first_of(of_block);
    while (at < starts_[of_block + 1]) {
      unsigned ones = 0, run = 0;
      do ones += run = std::min(static_cast<unsigned>(__builtin_ctzll(~load(at + ones))), kLoaded);
      while (run == kLoaded);
      seen += uint64_t{ones} << kRate | (load(at + ones + 1) & ((1u << kRate) - 1));
      at += ones;
      at += 1 + kRate;
      if (seen >= wanted) return seen == wanted;
    }
    return false;
  }
  double rate() const { return 1 - std::exp(-std::exp2(-double(kRate))); }

 private:
  static constexpr unsigned kLoaded = 57;  // bits that load() has for sure
  uint64_t load(uint64_t at) const {       // the code from bit `at` on, then zeros
    uint64_t word;
    std::memcpy(&word, code_.data() + at / 8, sizeof word);
    return word >> (at & 7);
  }
  uint64_t value(uint64_t hash) const { return reduce(hash, n_ << kRate); }
  uint64_t block(uint64_t value) const { return value / (uint64_t{kBlock} << kRate); }
  static uint64_t first_of(uint64_t block) { return block * (uint64_t{kBlock} << kRate); }
  void put(uint64_t gap) {
    const uint64_t ones = gap >> kRate;
    if ((used_ + ones + kRate + 80) / 8 >= code_.size()) give_up("Golomb-coded set: more bits than expected");
    for (uint64_t i = 0; i < ones; i++, used_++) code_[used_ / 8] |= static_cast<uint8_t>(1u << (used_ & 7));
    used_++;
    for (unsigned i = 0; i < kRate; i++, used_++)
      code_[used_ / 8] |= static_cast<uint8_t>((gap >> i & 1) << (used_ & 7));
  }

  uint64_t n_, blocks_, used_ = 0;  // bits
  std::vector<uint64_t> values_;    // until finish()
  std::vector<uint32_t> starts_;
  std::vector<uint8_t> code_;
};

// 16-bit fingerprints in a table of load 0.75, wherever linear probing ends; all of one probe sequence count.
class HashCompaction {
 public:
  static constexpr double kLoad = 0.75;

  explicit HashCompaction(uint64_t n)
      : slots_(static_cast<uint64_t>(static_cast<double>(n) / kLoad)), words_(bits(), kHugePage) {}

  static constexpr uint64_t kTail = 4096;  // slots behind the last: no probe sequence wraps
  uint64_t bits() const { return (slots_ + kTail) * 16; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { __builtin_prefetch(table() + reduce(hash, slots_)); }
  bool check(uint64_t hash) const { return *place(hash) != 0; }
  bool insert(uint64_t hash) {
    *place(hash) = tag(hash);
    return true;
  }
  // Fingerprints that an unsuccessful search compares (Knuth: linear probing), each equal with 1 / 65535.
  static double rate() { return ((1 + 1 / ((1 - kLoad) * (1 - kLoad))) / 2 - 1) / 65535; }

 private:
  static uint16_t tag(uint64_t hash) { return static_cast<uint16_t>(1 + (hash & 0xffffffff) * 65535 / (1ull << 32)); }
  uint16_t* table() const { return reinterpret_cast<uint16_t*>(words_.get()); }
  uint16_t* place(uint64_t hash) const {  // where it is or would be
    uint16_t* at = table() + reduce(hash, slots_);
    while (*at != 0 && *at != tag(hash)) at++;
    assert(at < table() + slots_ + kTail);
    return at;
  }

  uint64_t slots_;
  Words words_;
};

}  // namespace weir::reproduce
