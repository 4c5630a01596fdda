// weir's own filter layout (filter/layouts/line8.h) and its kernels, asked as the baselines of probes.h are.
#pragma once

#include "filter/format/siphash.h"
#include "filter/layouts/line8.h"
#include "filter/probe/dispatch.h"
#include "tests/reproduce/measure.h"

namespace weir::reproduce {

inline const filter::Kernels& best_kernels() {
  const auto chosen = filter::choose_kernels();
  if (!chosen) give_up(chosen.error());
  return **chosen;
}

// Keys are numbers, their hash is ideal and nearly free. Borrows words: of `bits` bits, rounded up to whole lines.
class Line8Filter {
 public:
  Line8Filter(uint64_t* words, uint64_t bits) : words_(words), lines_(static_cast<uint32_t>((bits + 511) / 512)) {}

  void insert(uint64_t first, uint64_t n) const {
    for (uint64_t at = 0; at < n; at += filter::kMaxBatch) {
      uint64_t hash[filter::kMaxBatch];
      const auto batch = static_cast<unsigned>(std::min<uint64_t>(filter::kMaxBatch, n - at));
      for (unsigned i = 0; i < batch; i++) hash[i] = scatter(first + at + i);
      prefetch(hash, batch);
      mark(hash, batch);
    }
  }
  void mark(const uint64_t* hash, unsigned n) const { line8_.mark({.words = words_, .lines = lines_}, hash, n); }
  void prefetch(const uint64_t* hash, unsigned n) const { line8_.prefetch(bits_of(), hash, n); }
  uint64_t check(const uint64_t* hash, unsigned n) const { return line8_.check(bits_of(), hash, n); }

  // Of n keys (a multiple of kBatch) from first on. A batch is tested `ahead` (0..3) batches after its prefetch.
  static constexpr unsigned kBatch = 32;
  uint64_t count(uint64_t first, uint64_t n, unsigned ahead) const {
    uint64_t found = 0, hash[4][kBatch];
    for (uint64_t batch = 0; batch < n / kBatch + ahead; batch++) {
      if (batch < n / kBatch) {
        uint64_t* fresh = hash[batch & 3];
        for (unsigned i = 0; i < kBatch; i++) fresh[i] = scatter(first + batch * kBatch + i);
        prefetch(fresh, kBatch);
      }
      if (batch >= ahead)
        found += static_cast<uint64_t>(__builtin_popcountll(check(hash[(batch - ahead) & 3], kBatch)));
    }
    return found;
  }

 private:
  filter::FilterBits bits_of() const { return {.bits = reinterpret_cast<const uint8_t*>(words_), .lines = lines_}; }

  const filter::LayoutKernels& line8_ = best_kernels().layout[WEIR_LAYOUT_LINE8];
  uint64_t* words_;
  uint32_t lines_;
};

}  // namespace weir::reproduce
