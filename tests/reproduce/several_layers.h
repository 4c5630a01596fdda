// Several Bloom filters as one: layered (deepest layer = how often), attenuated (nearest layer = how far; Kubiatowicz
// et al. 2000), fuzzy-folded (Singh et al. 2018). How often and how far a key is comes from its hash here, so that
// every answer can be judged.
#pragma once

#include <memory>

#include "tests/reproduce/bit_filters.h"

namespace weir::reproduce {

// A key goes into the first layer that does not have it yet; the layers that have it tell how often it came.
class LayeredBloom {
 public:
  static constexpr unsigned kLayers = 4, kProbes = 8;

  LayeredBloom(uint64_t n, unsigned bits_per_key) {  // layer i is made for n / 2^i keys
    for (unsigned i = 0; i < kLayers; i++) {
      const uint64_t bits = (n * bits_per_key >> i) + 64;
      layers_.emplace_back(Standard<kProbes>{bits}, bits);
    }
  }
  // Half of the keys come once, a quarter twice, an eighth three times, the rest four times.
  static unsigned times(uint64_t hash) {
    return 1 + static_cast<unsigned>(__builtin_ctzll(scatter(~hash) | uint64_t{1} << (kLayers - 1)));
  }

  uint64_t bits() const {
    uint64_t sum = 0;
    for (const auto& layer : layers_) sum += layer.bits();
    return sum;
  }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { layers_[0].prefetch(hash); }
  unsigned depth(uint64_t hash) const {
    unsigned depth = 0;
    while (depth < kLayers && layers_[depth].check(hash)) depth++;
    return depth;
  }
  bool check(uint64_t hash) const { return depth(hash) != 0; }
  bool keeps(uint64_t hash) const { return depth(hash) >= times(hash); }
  bool is_exact(uint64_t hash) const { return depth(hash) == times(hash); }
  bool insert(uint64_t hash) {
    for (unsigned i = 0; i < times(hash); i++) {
      const unsigned of = depth(hash);
      if (of < kLayers) layers_[of].insert(hash);
    }
    return true;
  }

 private:
  std::vector<BitFilter<Standard<kProbes>>> layers_;
};

// Filters of equal size. Level i is the union of the filters of all nodes that are i hops away; the answer is the first
// level that has the key.
class AttenuatedBloom {
 public:
  static constexpr unsigned kLevels = 3, kProbes = 8;

  explicit AttenuatedBloom(uint64_t bits_of_level) : layout_{bits_of_level} {
    for (unsigned i = 0; i < kLevels; i++) levels_.emplace_back(bits_of_level, kHugePage);
  }
  static unsigned hops(uint64_t hash) {  // 1/8, 3/8, 1/2 of the keys
    const uint64_t eighth = scatter(~hash) >> 61;
    return eighth == 0 ? 0 : eighth < 4 ? 1 : 2;
  }
  static constexpr double kShares[kLevels] = {1 / 8.0, 3 / 8.0, 1 / 2.0};

  uint64_t bits() const { return layout_.bits * kLevels; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (const Words& level : levels_) __builtin_prefetch(level.get() + (layout_.position(hash, 0) >> 6));
  }
  unsigned level(uint64_t hash) const {  // kLevels: nowhere
    unsigned level = 0;
    while (level < kLevels && !reproduce::check(layout_, levels_[level].get(), hash)) level++;
    return level;
  }
  bool check(uint64_t hash) const { return level(hash) < kLevels; }
  bool keeps(uint64_t hash) const { return level(hash) <= hops(hash); }
  bool is_exact(uint64_t hash) const { return level(hash) == hops(hash); }
  bool insert(uint64_t hash) {
    mark(layout_, levels_[hops(hash)].get(), hash);
    return true;
  }
  // What a node does with the filter of another one.
  void unite(unsigned level, const uint64_t* words) {
    for (uint64_t i = 0; i <= layout_.bits >> 6; i++) levels_[level].get()[i] |= words[i];
  }

  static double rate_of_level(unsigned level, double n, double bits_of_level) {
    return standard_rate(n * kShares[level], bits_of_level, kProbes);
  }
  static double rate(double n, double bits_of_level) {
    double none = 1;
    for (unsigned i = 0; i < kLevels; i++) none *= 1 - rate_of_level(i, n, bits_of_level);
    return 1 - none;
  }
  static double too_near(double n, double bits_of_level) {
    double sum = 0, none = 1;
    for (unsigned i = 0; i < kLevels; i++) {
      sum += kShares[i] * (1 - none);
      none *= 1 - rate_of_level(i, n, bits_of_level);
    }
    return sum;
  }

 private:
  Standard<kProbes> layout_;
  std::vector<Words> levels_;
};

// Two halves fill up one after the other; full, they are folded into one of their size, and the half that this frees
// becomes the next two. What a folded bucket may say: no key may be lost, so it must say 1 when either half does; it
// may say 0 when neither does. With one bit a bucket, as the space claims, folding therefore can be nothing but OR. A
// half is full at a share of ones of 1 - sqrt(1/2): folded it has one half.
class FuzzyFoldedBloom {
 public:
  static constexpr unsigned kProbes = 8;

  explicit FuzzyFoldedBloom(uint64_t bits) : free_bits_(bits) { next_pair(); }

  uint64_t bits() const {
    uint64_t sum = free_bits_ + 2 * pair_[0]->bits;
    for (const auto& filter : folded_) sum += filter->bits;
    return sum;
  }
  size_t folds() const { return folded_.size(); }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (const auto& filter : folded_) filter->prefetch(hash);
    for (const auto& filter : pair_) filter->prefetch(hash);
  }
  bool check(uint64_t hash) const {
    const auto has = [hash](const auto& filter) { return filter->check(hash); };
    return has(pair_[1]) || has(pair_[0]) || std::any_of(folded_.rbegin(), folded_.rend(), has);
  }
  bool insert(uint64_t hash) {
    if (pair_[1]->is_full() && pair_[0]->bits >= 4096) {
      for (uint64_t i = 0; i <= pair_[0]->bits >> 6; i++) pair_[0]->words.get()[i] |= pair_[1]->words.get()[i];
      folded_.push_back(std::move(pair_[0]));
      next_pair();
    }
    Filter& filter = *pair_[pair_[0]->is_full()];
    for (unsigned i = 0; i < kProbes; i++) {
      const uint64_t at = Standard<kProbes>{filter.bits}.position(hash, i), bit = uint64_t{1} << (at & 63);
      uint64_t& word = filter.words.get()[at >> 6];
      filter.ones += (word & bit) == 0;
      word |= bit;
    }
    return true;
  }
  // By the ones of each filter as it is.
  double rate() const {
    double none = 1;
    for (const auto& filter : pair_) none *= 1 - filter->rate();
    for (const auto& filter : folded_) none *= 1 - filter->rate();
    return 1 - none;
  }

 private:
  struct Filter {
    explicit Filter(uint64_t n_bits) : bits(n_bits), words(n_bits, kHugePage) {}
    REPRODUCE_KEPT void prefetch(uint64_t hash) const {
      for (unsigned i = 0; i < 2; i++)  // most strangers end there
        __builtin_prefetch(words.get() + (Standard<kProbes>{bits}.position(hash, i) >> 6));
    }
    bool check(uint64_t hash) const { return reproduce::check(Standard<kProbes>{bits}, words.get(), hash); }
    bool is_full() const { return static_cast<double>(ones) >= 0.29289 * static_cast<double>(bits); }
    double rate() const {
      uint64_t sum = 0;
      for (uint64_t i = 0; i <= bits >> 6; i++) sum += static_cast<uint64_t>(__builtin_popcountll(words.get()[i]));
      return std::pow(static_cast<double>(sum) / static_cast<double>(bits), kProbes);
    }
    uint64_t bits;
    Words words;
    uint64_t ones = 0;  // before folding
  };
  // Half of what is free, in two; the other half waits for the fold that comes next.
  void next_pair() {
    const uint64_t all = folded_.empty() ? free_bits_ : pair_[1]->bits;
    for (auto& half : pair_) half = std::make_unique<Filter>(all / 2);
    free_bits_ = all - all / 2 * 2;
  }

  uint64_t free_bits_;
  std::vector<std::unique_ptr<Filter>> folded_;
  std::unique_ptr<Filter> pair_[2];
};

}  // namespace weir::reproduce
