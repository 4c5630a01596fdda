// Filters made of bits only: a fixed layout in memory of its own, and the scalable filter (Almeida, Baquero, Preguiça,
// Hutchison 2007), which adds a larger and stricter Bloom filter whenever the last one is full. With equal ones it is
// the dynamic filter.
#pragma once

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

template <class Layout>
class BitFilter {
 public:
  BitFilter(Layout layout, uint64_t bits) : layout_(layout), bits_(bits), words_(bits, kHugePage) {}

  uint64_t bits() const { return bits_; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < Layout::kLines; i++) __builtin_prefetch(words_.get() + (layout_.position(hash, i) >> 6));
  }
  bool check(uint64_t hash) const {  // its lines are near: no branch is cheaper than an early exit
    uint64_t all = 1;
    for (unsigned i = 0; i < Layout::kProbes; i++) all &= bit_at(words_.get(), layout_.position(hash, i));
    return all != 0;
  }
  bool insert(uint64_t hash) {
    mark(layout_, words_.get(), hash);
    return true;
  }

 private:
  Layout layout_;
  uint64_t bits_;
  Words words_;
};

class ScalableBloom {
 public:
  // growth 2, tightening 0.5: each stage is twice as large as the last and its rate half of it: they add up to below
  // `rate`. Both 1: equal stages, each with `rate`; dynamic (Guo, Wu, Chen, Yuan, Luo 2010) and incremental Bloom
  // filters (Hao, Kodialam, Lakshman 2008) do that.
  ScalableBloom(uint64_t first_capacity, double rate, uint64_t growth = 2, double tightening = 0.5)
      : growth_(growth),
        tightening_(tightening),
        next_capacity_(first_capacity),
        next_rate_(tightening < 1 ? rate * (1 - tightening) : rate) {}

  uint64_t bits() const {
    uint64_t sum = 0;
    for (const Stage& stage : stages_) sum += stage.bits;
    return sum;
  }
  size_t stages() const { return stages_.size(); }
  double rate() const {  // of a stranger who asks all of the stages as they are filled now
    double none = 1;
    for (const Stage& stage : stages_) {
      none *= 1 - standard_rate(static_cast<double>(stage.keys), static_cast<double>(stage.bits), stage.k);
    }
    return 1 - none;
  }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {  // the first probe of each stage; most strangers need no second
    for (const Stage& stage : stages_) __builtin_prefetch(stage.words.get() + (position(stage, hash, 0) >> 6));
  }
  bool check(uint64_t hash) const {
    return std::any_of(stages_.rbegin(), stages_.rend(), [&](const Stage& stage) {  // the largest first
      for (unsigned i = 0; i < stage.k; i++) {
        if (!bit_at(stage.words.get(), position(stage, hash, i))) return false;
      }
      return true;
    });
  }
  bool insert(uint64_t hash) {
    if (stages_.empty() || stages_.back().keys == stages_.back().capacity) grow();
    Stage& stage = stages_.back();
    for (unsigned i = 0; i < stage.k; i++) {
      const uint64_t at = position(stage, hash, i);
      stage.words.get()[at >> 6] |= uint64_t{1} << (at & 63);
    }
    stage.keys++;
    return true;
  }

 private:
  struct Stage {
    uint64_t capacity, bits;
    unsigned k;
    Words words;
    uint64_t keys = 0;
  };
  static uint64_t position(const Stage& stage, uint64_t hash, unsigned i) {
    return reduce(hash + i * (scatter(hash) | 1), stage.bits);
  }
  void grow() {
    const double bits_per_key = -std::log2(next_rate_) / std::log(2);
    const auto bits = static_cast<uint64_t>(bits_per_key * static_cast<double>(next_capacity_));
    stages_.push_back(
        {next_capacity_, bits, static_cast<unsigned>(std::lround(-std::log2(next_rate_))), Words(bits, kHugePage)});
    next_capacity_ *= growth_;
    next_rate_ *= tightening_;
  }

  uint64_t growth_;
  double tightening_;
  uint64_t next_capacity_;
  double next_rate_;
  std::vector<Stage> stages_;
};

}  // namespace weir::reproduce
