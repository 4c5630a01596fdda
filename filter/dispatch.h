#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/result.h"

namespace weir::filter {

constexpr unsigned kMaxBatch = 64;  // keys in one call; a hit mask is one 64-bit word

// The inner loops, one set per instruction set. All sets give the same answers: the scalar layouts define them
// (filter/layouts), tests compare. n <= kMaxBatch everywhere; nothing is read past n keys.
struct Kernels {
  std::string_view name;  // scalar | avx2 | avx512
  bool (*usable)();       // on this machine

  // SipHash-1-3 of n keys of n_words 64-bit words each (1..3), structure of arrays: word w of key i is words[w][i].
  void (*siphash13)(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n,
                    uint64_t* hash);
  // Brings every key's line near: of a filter, or of an exact stage, whose buckets are lines too.
  void (*prefetch)(const uint8_t* lines, uint32_t n_lines, const uint64_t* hash, unsigned n);
  // Bit i is 1 when key i may be present (layout line8).
  uint64_t (*line8_check)(const uint8_t* filter, uint32_t filter_lines, const uint64_t* hash, unsigned n);
  // Bit i is 1 when bit index[i] (< 2^24) is set.
  uint64_t (*bitmap_check)(const uint8_t* bitmap, const uint32_t* index, unsigned n);
};

// Every set that was compiled in, best first; the last one (scalar) is always usable.
std::span<const Kernels* const> all_kernels();

// The best usable one, or the one WEIR_FORCE_ISA names. An unknown or unusable name is an error, not a fallback.
Result<const Kernels*> choose_kernels();

}  // namespace weir::filter
