#pragma once

#include <cstdint>
#include <string_view>

// What the benchmarks of the filter do besides the filter: keys made in registers, and the physical limit, a gather of
// random lines. Compiled once per instruction set (filter_lanes.cpp), so that neither is slower than what is measured.
namespace weir::bench {

// A stream of 16-byte keys. Key i (0..2^32 - 1) is a fixed permutation of i, in two words; members are keys
// 0..n_members - 1, strangers 2^31 and up, both drawn at random with repetition. Nothing is read from memory, so making
// keys brings no line into a cache.
struct KeyStream {
  alignas(64) uint64_t lane[16];  // xorshift64 states (Marsaglia 2003), none 0
  uint32_t n_members;             // <= 2^31
  uint32_t hits;                  // members among 65536 keys
};
KeyStream key_stream(uint64_t n_members, double hit_ratio, uint64_t seed);

constexpr unsigned kFillUnit = 16;      // n of the fill functions: a multiple
constexpr unsigned kMaxDistance = 768;  // lines under way in a rolling gather

struct Lanes {
  std::string_view name;
  bool (*usable)();

  void (*fill_hashes)(KeyStream& stream, uint64_t* hash, unsigned n);               // random words
  void (*fill_columns)(KeyStream& stream, uint64_t* w0, uint64_t* w1, unsigned n);  // structure of arrays
  void (*fill_rows)(KeyStream& stream, uint64_t* rows, unsigned n);                 // rows[2 * n], for peers
  void (*fill_members)(uint64_t first, uint64_t* w0, uint64_t* w1, unsigned n);     // keys first, first + 1, ...

  // Loads the line of every hash, and nothing else: what a lookup cannot do without.
  uint64_t (*touch)(const uint8_t* bits, uint32_t lines, const uint64_t* hash, unsigned n);
  // n (multiple of 16) random lines, each asked for `distance` (multiple of 16, 0: not asked for) lines before it is
  // loaded.
  uint64_t (*rolling)(KeyStream& stream, const uint8_t* bits, uint32_t lines, unsigned distance, uint64_t n);
};

// The best usable ones.
const Lanes& lanes();

}  // namespace weir::bench
