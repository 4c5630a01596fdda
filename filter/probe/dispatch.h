#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/result.h"
#include "filter/format/snapshot.h"

namespace weir::filter {

constexpr unsigned kMaxBatch = 64;  // keys in one call; a hit mask is one 64-bit word

// A filter's bits, whatever their layout. Borrowed.
struct FilterBits {
  const uint8_t* bits = nullptr;
  uint32_t lines = 0;  // of 64 bytes; layouts of pages: a multiple of 64
  uint32_t k = 0;      // bits of a key, where the layout leaves it open (page2, standard)
};

// A filter that is being written.
struct FilterWords {
  uint64_t* words = nullptr;
  uint32_t lines = 0;
  uint32_t k = 0;
};

// What the loops of one layout do. hash[i]: the key's hash; for a bitmap its index, below 2^24.
struct LayoutKernels {
  // Brings every line near that check() will read.
  void (*prefetch)(const FilterBits& filter, const uint64_t* hash, unsigned n);
  // Bit i is 1 when key i may be present.
  uint64_t (*check)(const FilterBits& filter, const uint64_t* hash, unsigned n);
  // Sets every key's bits; nobody else writes or reads yet. Null for a ribbon, whose pages are solved for all their
  // keys at once (filter/build/ribbon.h), and for a bitmap, which is marked by ranges (filter/build/networks.h).
  void (*mark)(const FilterWords& filter, const uint64_t* hash, unsigned n);
};

// One step of a pipeline over line8 filters: three batches at three ages, woven into each other so that one waits for
// memory while another computes (FILTERS 4.1). Any of them may be missing (n 0). Every column has room for kMaxBatch
// keys: what lies behind a batch's keys may be read and hashed too, and does not matter.
struct Line8Step {
  const uint64_t* secret = nullptr;        // [2]
  const uint64_t* const* words = nullptr;  // of the batch to hash
  unsigned n_words = 0;
  unsigned n_hash = 0;
  uint64_t* hash = nullptr;
  FilterBits fetch_filter;  // of the batch whose lines to ask for (an exact stage's buckets are lines too)
  const uint64_t* fetch_hash = nullptr;
  unsigned n_fetch = 0;
  FilterBits test_filter;  // of the batch to test
  const uint64_t* test_hash = nullptr;
  unsigned n_test = 0;
};

// The inner loops, one set per instruction set. All sets give the same answers: the scalar layouts define them
// (filter/layouts), tests compare. n <= kMaxBatch everywhere; but for line8_step, nothing is read past n keys.
struct Kernels {
  std::string_view name;  // scalar | avx2 | avx512
  bool (*usable)();       // on this machine

  // SipHash-1-3 of n keys of n_words 64-bit words each (1..WEIR_MAX_KEY_WORDS), structure of arrays: word w of key i is
  // words[w][i].
  void (*siphash13)(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n,
                    uint64_t* hash);
  LayoutKernels layout[WEIR_LAYOUTS];  // by weir_layout; [0] is none
  // The answers of the batch to test, as its layout's check().
  uint64_t (*line8_step)(const Line8Step& step);
};

// Every set that was compiled in, best first; the last one (scalar) is always usable.
std::span<const Kernels* const> all_kernels();

// The best usable one, or the one WEIR_FORCE_ISA names. An unknown or unusable name is an error, not a fallback.
Result<const Kernels*> choose_kernels();

}  // namespace weir::filter
