#pragma once

#include <cstdint>
#include <string_view>

#include "filter/format/snapshot.h"
#include "filter/layouts/filter_bits.h"

namespace weir::filter {

// What the loops of one layout do. place[i]: the key's hash; for a bitmap its index, below 2^24.
struct LayoutKernels {
  // Brings every line near that check() will read.
  void (*prefetch)(const FilterBits& filter, const uint64_t* place, unsigned n);
  // Bit i is 1 when key i may be present.
  uint64_t (*check)(const FilterBits& filter, const uint64_t* place, unsigned n);
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

// The compiled-in sets; filter/probe/dispatch.cpp lists them. A new instruction set is its file here, one line below,
// one row in dispatch.cpp and its flags in meson.build.
//
// Kernel files are compiled with more instructions than the rest. They hold intrinsics, arrays and static or
// anonymous-namespace functions only: an inline function from a shared header would be emitted with those instructions
// too, and the linker may keep that copy for the whole program (scripts/check-kernels looks for it).
extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;

}  // namespace weir::filter
