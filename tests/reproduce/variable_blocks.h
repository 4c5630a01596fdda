// The Variably-Sized Block Bloom filter of Walther et al.: m bits as blocks of powers of two, each a Bloom filter of
// all keys with its own number of probes k_j = m_j/n ln 2.
#pragma once

#include "tests/reproduce/rational.h"

namespace weir::reproduce {

enum class BlockHash {
  printed,  // Algorithm 2: (h1 + (i + m_j) h2) & (m_j - 1). m_j is 0 under its own mask: all blocks see the same bits
  independent,  // a pair of hashes for each block
};
enum class BlockK {
  rational,  // floor(k_j) probes and one more for a fraction of the keys, as in Rational
  rounded,   // the nearest integers; the largest block takes what the sum is short of round(m/n ln 2)
};

class VariableBlocks {
 public:
  VariableBlocks(uint64_t bits, uint64_t n, BlockHash hash, BlockK k) : hash_(hash) {
    double total = std::round(static_cast<double>(bits) / static_cast<double>(n) * std::log(2));
    for (unsigned bit = 64; bit-- > 6;) {  // blocks below one word would each cost a line for nothing
      const uint64_t size = uint64_t{1} << bit;
      if ((bits & size) == 0) continue;
      const double best = static_cast<double>(size) / static_cast<double>(n) * std::log(2);
      const double probes = k == BlockK::rational ? best : std::round(best);
      const double always = std::floor(probes);
      total -= probes;
      blocks_.push_back(
          {size - 1, bits_, static_cast<unsigned>(always), static_cast<uint64_t>((probes - always) * 0x1p63)});
      bits_ += size;
    }
    if (k == BlockK::rounded) blocks_.front().always += static_cast<unsigned>(std::max(total, 0.0));
    std::erase_if(blocks_, [](const Block& block) { return block.always == 0 && block.fraction == 0; });
  }

  uint64_t bits() const { return bits_; }
  size_t blocks() const { return blocks_.size(); }

  void mark(uint64_t* words, uint64_t hash) const {
    each_probe(hash, [&](uint64_t at) { return words[at >> 6] |= uint64_t{1} << (at & 63), true; });
  }
  bool check(const uint64_t* words, uint64_t hash) const {
    return each_probe(hash, [&](uint64_t at) { return bit_at(words, at) != 0; });
  }

  // Theorem 2, the product over the blocks, with the mixture of rational.h in place of the continuous formula.
  double rate(double n) const {
    double product = 1;
    for (const Block& block : blocks_) {
      product *= mixture_rate(n, double(block.mask + 1), block.always + double(block.fraction) * 0x1p-63);
    }
    return product;
  }

 private:
  struct Block {
    uint64_t mask, offset;
    unsigned always;
    uint64_t fraction;  // of 2^63: the keys that use one probe more
  };

  // Positions of one key, until `visit` returns false.
  template <class Visit>
  bool each_probe(uint64_t hash, Visit visit) const {
    uint64_t h1 = scatter(hash), h2 = scatter(h1) | 1;
    for (const Block& block : blocks_) {
      if (hash_ == BlockHash::independent) h1 = scatter(h1 ^ block.offset), h2 = scatter(h1) | 1;
      const unsigned probes = block.always + (block.fraction != 0 && scatter(hash ^ block.mask) >> 1 < block.fraction);
      for (unsigned i = 0; i < probes; i++) {
        if (!visit(block.offset + ((h1 + i * h2) & block.mask))) return false;
      }
    }
    return true;
  }

  BlockHash hash_;
  uint64_t bits_ = 0;
  std::vector<Block> blocks_;
};

}  // namespace weir::reproduce
