// Filters that answer with a value: Bloomier (Chazelle, Kilian, Rubinfeld, Tal 2004), compact approximators (Boldi,
// Vigna 2005), combinatorial (Hao, Kodialam, Lakshman, Song 2009). The value that a key has here is made of its hash,
// so that every answer can be judged.
#pragma once

#include <array>
#include <optional>

#include "tests/reproduce/probes.h"

namespace weir::reproduce {

// The XOR of three slots of a key is its check byte and its value of 16 bits. Which slots can be solved is found by
// peeling: 1.23 slots a key are enough (Botelho, Pagh, Ziviani 2007). The set is fixed.
class Bloomier {
 public:
  static constexpr unsigned kCheckBits = 8, kValueBits = 16;
  static constexpr double kSlotsPerKey = 1.23;

  explicit Bloomier(uint64_t n)
      : third_(static_cast<uint64_t>(static_cast<double>(n) * kSlotsPerKey) / 3 + 16), bytes_(third_ * 9 + 8) {
    keys_.reserve(n);
  }
  static uint32_t value_of(uint64_t hash) { return static_cast<uint32_t>(scatter(~hash) >> (64 - kValueBits)); }

  uint64_t bits() const { return third_ * 3 * (kCheckBits + kValueBits); }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (const uint64_t at : slots(hash)) __builtin_prefetch(bytes_.data() + at * 3);
  }
  // Of a key that is in the map always the right one; of another one by accident.
  std::optional<uint32_t> value(uint64_t hash) const {
    uint32_t sum = check_byte(hash) << kValueBits;
    for (const uint64_t at : slots(hash)) sum ^= load(at);
    if (sum >> kValueBits != 0) return {};
    return sum;
  }
  bool check(uint64_t hash) const { return value(hash).has_value(); }
  bool keeps(uint64_t hash) const { return value(hash) == value_of(hash); }
  bool insert(uint64_t hash) {
    keys_.push_back(hash);
    return true;
  }
  void finish() {
    while (!solve()) seed_++;
    keys_ = {};
  }

 private:
  std::array<uint64_t, 3> slots(uint64_t hash) const {
    const uint64_t one = scatter(hash ^ seed_), two = scatter(one), three = scatter(two);
    return {reduce(one, third_), third_ + reduce(two, third_), 2 * third_ + reduce(three, third_)};
  }
  static uint32_t check_byte(uint64_t hash) { return static_cast<uint32_t>(scatter(hash + 0x1234567) & 0xff); }
  uint32_t load(uint64_t at) const {
    return bytes_[at * 3] | static_cast<uint32_t>(bytes_[at * 3 + 1]) << 8 |
           static_cast<uint32_t>(bytes_[at * 3 + 2]) << 16;
  }
  // False: some keys share all of their slots with each other.
  bool solve() {
    struct Slot {
      uint64_t keys;  // XOR of the keys that use it
      uint32_t count;
    };
    std::vector<Slot> graph(third_ * 3, Slot{0, 0});
    for (const uint64_t key : keys_) {
      for (const uint64_t at : slots(key)) graph[at].keys ^= key, graph[at].count++;
    }
    std::vector<std::pair<uint64_t, uint64_t>> order;  // key, the slot that is its own
    order.reserve(keys_.size());
    std::vector<uint64_t> single;
    for (uint64_t start = 0; start < graph.size(); start++) {
      single.assign(1, start);
      while (!single.empty()) {
        const uint64_t at = single.back();
        single.pop_back();
        if (graph[at].count != 1) continue;
        const uint64_t key = graph[at].keys;
        order.emplace_back(key, at);
        for (const uint64_t other : slots(key)) {
          graph[other].keys ^= key;
          if (--graph[other].count == 1) single.push_back(other);
        }
      }
    }
    if (order.size() != keys_.size()) return false;
    std::fill(bytes_.begin(), bytes_.end(), uint8_t{0});
    for (size_t i = order.size(); i-- > 0;) {
      const auto [key, own] = order[i];
      uint32_t sum = check_byte(key) << kValueBits | value_of(key);
      for (const uint64_t at : slots(key)) sum ^= load(at);
      for (unsigned b = 0; b < 3; b++) bytes_[own * 3 + b] ^= static_cast<uint8_t>(sum >> 8 * b);
    }
    return true;
  }

  uint64_t third_, seed_ = 1;
  std::vector<uint64_t> keys_;  // until finish()
  std::vector<uint8_t> bytes_;
};

// Cells of six bits in place of bits. A key raises its cells to its value, 1..32 (say, the longest prefix that it is
// in); the answer is their minimum: never too small, too large by accident.
class CompactApproximator {
 public:
  static constexpr unsigned kProbes = 8, kCellBits = 6, kInWord = 64 / kCellBits, kValues = 32;

  explicit CompactApproximator(uint64_t cells) : layout_{cells}, words_(bits(), kHugePage) {}
  static unsigned value_of(uint64_t hash) { return 1 + static_cast<unsigned>(reduce(scatter(~hash), kValues)); }

  uint64_t bits() const { return (layout_.bits / kInWord + 1) * 64; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {
    for (unsigned i = 0; i < kProbes; i++) __builtin_prefetch(words_.get() + layout_.position(hash, i) / kInWord);
  }
  unsigned value(uint64_t hash) const {
    uint64_t least = kValues;
    for (unsigned i = 0; i < kProbes && least != 0; i++) least = std::min(least, cell(layout_.position(hash, i)));
    return static_cast<unsigned>(least);
  }
  bool check(uint64_t hash) const { return value(hash) != 0; }
  bool keeps(uint64_t hash) const { return value(hash) >= value_of(hash); }
  bool is_exact(uint64_t hash) const { return value(hash) == value_of(hash); }
  bool insert(uint64_t hash) {
    const uint64_t value = value_of(hash);
    for (unsigned i = 0; i < kProbes; i++) {
      const uint64_t at = layout_.position(hash, i);
      if (cell(at) >= value) continue;
      const uint64_t change = cell(at) ^ value;
      words_.get()[at / kInWord] ^= change << at % kInWord * kCellBits;
    }
    return true;
  }

  // A cell is above `value` when any of the kn draws of larger values has hit it; an answer when all k cells are.
  static double too_large(double n, double cells) {
    double sum = 0;
    for (unsigned value = 1; value <= kValues; value++) {
      sum += std::pow(1 - std::exp(-double(kProbes) * n * (kValues - value) / kValues / cells), kProbes);
    }
    return sum / kValues;
  }

 private:
  uint64_t cell(uint64_t at) const {
    return words_.get()[at / kInWord] >> at % kInWord * kCellBits & ((1u << kCellBits) - 1);
  }

  Standard<kProbes> layout_;  // of cells
  Words words_;
};

// One array of bits tells which of 2^kSetBits sets a key is in: kGroups groups of kProbes hash functions; a set's code
// is kOnes of the groups, and its keys set the bits of those. A stranger finds fewer than kOnes groups, a member finds
// its own and perhaps more: then nobody knows its set.
class CombinatorialBloom {
 public:
  static constexpr unsigned kGroups = 11, kOnes = 4, kProbes = 8, kSetBits = 8;  // C(11, 4) = 330 codes

  explicit CombinatorialBloom(uint64_t bits) : bits_(bits), words_(bits, kHugePage) {
    for (unsigned groups = 0; groups < 1u << kGroups; groups++) {
      if (__builtin_popcount(groups) == kOnes) codes_.push_back(static_cast<uint16_t>(groups));
    }
  }
  static uint64_t bits_for(uint64_t n) {  // half of them will be ones
    return static_cast<uint64_t>(static_cast<double>(n) * kOnes * kProbes / std::log(2));
  }
  static unsigned set_of(uint64_t hash) { return static_cast<unsigned>(scatter(~hash) >> (64 - kSetBits)); }

  uint64_t bits() const { return bits_; }
  REPRODUCE_KEPT void prefetch(uint64_t hash) const {  // the first line of each group: most end there
    for (unsigned group = 0; group < kGroups; group++)
      __builtin_prefetch(words_.get() + (position(hash, group * kProbes) >> 6));
  }
  unsigned groups(uint64_t hash) const {
    unsigned found = 0;
    for (unsigned group = 0; group < kGroups; group++) {
      unsigned probe = 0;
      while (probe < kProbes && bit_at(words_.get(), position(hash, group * kProbes + probe))) probe++;
      found |= static_cast<unsigned>(probe == kProbes) << group;
    }
    return found;
  }
  bool check(uint64_t hash) const { return __builtin_popcount(groups(hash)) >= static_cast<int>(kOnes); }
  bool keeps(uint64_t hash) const { return (groups(hash) & codes_[set_of(hash)]) == codes_[set_of(hash)]; }
  bool is_exact(uint64_t hash) const { return groups(hash) == codes_[set_of(hash)]; }
  bool insert(uint64_t hash) {
    const unsigned code = codes_[set_of(hash)];
    for (unsigned i = 0; i < kGroups * kProbes; i++) {
      const uint64_t at = position(hash, i);
      if (code >> i / kProbes & 1) words_.get()[at >> 6] |= uint64_t{1} << (at & 63);
    }
    return true;
  }

  // `ones`: share of the bits.
  static double stranger_rate(double ones) {
    const double group = std::pow(ones, kProbes);
    double sum = 0;
    for (unsigned found = kOnes; found <= kGroups; found++) {
      sum += std::exp(std::lgamma(kGroups + 1) - std::lgamma(found + 1) - std::lgamma(kGroups - found + 1)) *
             std::pow(group, found) * std::pow(1 - group, kGroups - found);
    }
    return sum;
  }
  static double ambiguous(double ones) { return 1 - std::pow(1 - std::pow(ones, kProbes), kGroups - kOnes); }

 private:
  uint64_t position(uint64_t hash, unsigned i) const { return reduce(hash + i * (scatter(hash) | 1), bits_); }

  uint64_t bits_;
  Words words_;
  std::vector<uint16_t> codes_;
};

}  // namespace weir::reproduce
