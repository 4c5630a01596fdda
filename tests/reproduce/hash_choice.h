// Filters that choose hash functions by what they hold or by what they are asked: partitioned hashing (Hao, Kodialam,
// Lakshman 2007), the same within a cache line, and weighted (Bruck, Gao, Jiang 2006).
#pragma once

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

// Keys fall into groups of kKeys on average; each group takes that of kChoices sets of hash functions which leaves the
// fewest ones. Four bits a group say which. The set is fixed.
class ChosenHashes {
 public:
  static constexpr unsigned kProbes = 8, kKeys = 16, kChoices = 8;

  ChosenHashes(uint64_t n, uint64_t bits)
      : layout_{bits}, words_(bits, kHugePage), groups_(n / kKeys + 1), choices_(groups_ / 2 + 1) {
    keys_.reserve(n);
  }

  uint64_t bits() const { return layout_.bits + groups_ * 4; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { __builtin_prefetch(&choices_[group(hash) / 2]); }
  REPRODUCE_KEPT void prefetch_next(uint64_t hash) const {
    const uint64_t chosen = chosen_hash(hash, choice(hash));
    for (unsigned i = 0; i < kProbes; i++) __builtin_prefetch(words_.get() + (layout_.position(chosen, i) >> 6));
  }
  bool check(uint64_t hash) const {
    const uint64_t chosen = chosen_hash(hash, choice(hash));
    uint64_t all = 1;
    for (unsigned i = 0; i < kProbes; i++) all &= bit_at(words_.get(), layout_.position(chosen, i));
    return all != 0;
  }
  bool insert(uint64_t hash) {
    keys_.push_back(hash);
    return true;
  }
  void finish() {
    std::sort(keys_.begin(), keys_.end(), [this](uint64_t a, uint64_t b) { return group(a) < group(b); });
    std::vector<uint64_t> positions[kChoices];
    for (size_t at = 0, end; at < keys_.size(); at = end) {
      for (end = at + 1; end < keys_.size() && group(keys_[end]) == group(keys_[at]);) end++;
      for (unsigned c = 0; c < kChoices; c++) {  // all lines first: they are far apart
        positions[c].clear();
        for (size_t key = at; key < end; key++) {
          for (unsigned i = 0; i < kProbes; i++) {
            positions[c].push_back(layout_.position(chosen_hash(keys_[key], c), i));
            __builtin_prefetch(words_.get() + (positions[c].back() >> 6));
          }
        }
      }
      unsigned best = 0;
      size_t fewest = ~size_t{0};
      for (unsigned c = 0; c < kChoices; c++) {
        size_t fresh = 0;
        for (const uint64_t position : positions[c]) fresh += !bit_at(words_.get(), position);
        if (fresh < fewest) fewest = fresh, best = c;
      }
      for (const uint64_t position : positions[best]) words_.get()[position >> 6] |= uint64_t{1} << (position & 63);
      choices_[group(keys_[at]) / 2] |= static_cast<uint8_t>(best << group(keys_[at]) % 2 * 4);
    }
    keys_ = {};
  }
  double ones() const {
    uint64_t sum = 0;
    for (uint64_t i = 0; i <= layout_.bits >> 6; i++)
      sum += static_cast<uint64_t>(__builtin_popcountll(words_.get()[i]));
    return static_cast<double>(sum) / static_cast<double>(layout_.bits);
  }
  double rate() const { return std::pow(ones(), kProbes); }

 private:
  uint64_t group(uint64_t hash) const { return reduce(scatter(hash + 1), groups_); }
  unsigned choice(uint64_t hash) const { return choices_[group(hash) / 2] >> group(hash) % 2 * 4 & 15; }
  static uint64_t chosen_hash(uint64_t hash, unsigned choice) { return scatter(hash ^ scatter(choice)); }

  Standard<kProbes> layout_;
  Words words_;
  uint64_t groups_;
  std::vector<uint8_t> choices_;
  std::vector<uint64_t> keys_;  // until finish()
};

// The idea of the last filter for weir's own lines: one bit in each of the eight words of one line, as in line8, and
// the first word's highest four bits say which of kChoices hash functions the line's keys use: the one with the lowest
// rate.
class ChosenLines {
 public:
  static constexpr unsigned kChoices = 16, kWords = 8;

  ChosenLines(uint64_t n, uint64_t bits) : lines_((bits + 511) / 512), words_(lines_ * 512, kHugePage) {
    keys_.reserve(n);
  }

  uint64_t bits() const { return lines_ * 512; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const { __builtin_prefetch(line(hash)); }
  bool check(uint64_t hash) const {
    const uint64_t* words = line(hash);
    const Mask mask = mask_of(hash, static_cast<unsigned>(words[0] >> 60));
    bool all = true;
    for (unsigned w = 0; w < kWords; w++) all &= (words[w] & mask.word[w]) != 0;
    return all;
  }
  bool insert(uint64_t hash) {
    keys_.push_back(hash);
    return true;
  }
  void finish() {
    std::sort(keys_.begin(), keys_.end());  // by line: reduce() keeps the order
    for (size_t at = 0, end; at < keys_.size(); at = end) {
      for (end = at + 1; end < keys_.size() && line(keys_[end]) == line(keys_[at]);) end++;
      double lowest = 2;
      for (unsigned c = 0; c < kChoices; c++) {
        Mask sum = {};
        for (size_t key = at; key < end; key++) {
          const Mask mask = mask_of(keys_[key], c);
          for (unsigned w = 0; w < kWords; w++) sum.word[w] |= mask.word[w];
        }
        if (rate_of(sum.word) >= lowest) continue;
        lowest = rate_of(sum.word);
        sum.word[0] |= uint64_t{c} << 60;
        std::copy(sum.word, sum.word + kWords, line(keys_[at]));
      }
    }
    keys_ = {};
  }
  double rate() const {
    double sum = 0;
    for (uint64_t i = 0; i < lines_; i++) sum += rate_of(words_.get() + i * kWords);
    return sum / static_cast<double>(lines_);
  }

 private:
  struct Mask {
    uint64_t word[kWords];
  };
  uint64_t* line(uint64_t hash) const { return words_.get() + reduce(hash, lines_) * kWords; }
  static Mask mask_of(uint64_t hash, unsigned choice) {
    const uint64_t places = scatter(hash + choice * 0x9e3779b97f4a7c15u);
    Mask mask;
    mask.word[0] = uint64_t{1} << ((places & 0xffff) * 60 >> 16);
    for (unsigned w = 1; w < kWords; w++) mask.word[w] = uint64_t{1} << (places >> (10 + 6 * w) & 63);
    return mask;
  }
  static double rate_of(const uint64_t* words) {
    double rate = static_cast<double>(__builtin_popcountll(words[0] << 4)) / 60;
    for (unsigned w = 1; w < kWords; w++) rate *= static_cast<double>(__builtin_popcountll(words[w])) / 64;
    return rate;
  }

  uint64_t lines_;
  Words words_;
  std::vector<uint64_t> keys_;  // until finish()
};

// Keys that are often asked for and seldom members get more probes, the others fewer: k + log2(asked / stored) less its
// mean. Two classes, which everybody can tell from the key: a tenth of the members is of the class of which nine tenths
// of the questions are.
class WeightedBloom {
 public:
  static constexpr unsigned kOften = 14, kSeldom = 7;
  static constexpr double kAskedOften = 0.9, kStoredOften = 0.1;

  explicit WeightedBloom(uint64_t bits) : bits_(bits), words_(bits, kHugePage) {}

  uint64_t bits() const { return bits_; }
  REPRODUCE_KEPT void prefetch(uint64_t hash, bool often) const {
    for (unsigned i = 0; i < (often ? 2 : kSeldom); i++) __builtin_prefetch(words_.get() + (position(hash, i) >> 6));
  }
  bool check(uint64_t hash, bool often) const {
    for (unsigned i = 0; i < (often ? kOften : kSeldom); i++) {
      if (!bit_at(words_.get(), position(hash, i))) return false;
    }
    return true;
  }
  bool insert(uint64_t hash, bool often) {
    for (unsigned i = 0; i < (often ? kOften : kSeldom); i++) {
      const uint64_t at = position(hash, i);
      words_.get()[at >> 6] |= uint64_t{1} << (at & 63);
    }
    return true;
  }
  static double rate_of(double n, double bits, bool often) {
    const double mean = kStoredOften * kOften + (1 - kStoredOften) * kSeldom;
    return std::pow(1 - std::exp(-mean * n / bits), often ? kOften : kSeldom);
  }
  static double rate(double n, double bits) {
    return kAskedOften * rate_of(n, bits, true) + (1 - kAskedOften) * rate_of(n, bits, false);
  }

 private:
  uint64_t position(uint64_t hash, unsigned i) const { return reduce(hash + i * (scatter(hash) | 1), bits_); }

  uint64_t bits_;
  Words words_;
};

}  // namespace weir::reproduce
