#pragma once

#include <cstdint>
#include <string_view>

#include "filter/format/buckets.h"
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
// memory while another computes (docs/develop/filter.md, Lookups). Any of them may be missing (n 0). Every column has
// room for kMaxBatch keys: what lies behind a batch's keys may be read and hashed too, and does not matter.
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

// Tables of gates (filter/format/gate.h): bit i is 1 when the table knows the address of packet i. IPv4: addresses[i]
// has those of a packet as on the wire, the source in the low half, the destination in the high half; side: enum
// weir_side. IPv6: high[i] is the first half of an address as on the wire. n <= kMaxBatch; there is room for 8
// addresses more, which may be anything.
struct GateWords {
  const uint64_t* words = nullptr;
  uint32_t n_words = 0;  // at least 1
  uint32_t prefix_bits = 0;
  uint64_t multiplier = 0;
};
using GateWordsV4 = uint64_t (*)(const GateWords& table, const uint64_t* addresses, unsigned side, unsigned n);
using GateWordsV6 = uint64_t (*)(const GateWords& table, const uint64_t* high, unsigned n);
// A direct table, or a bitmap of networks.
using GateV4 = uint64_t (*)(const uint64_t* bits, unsigned prefix_bits, const uint64_t* addresses, unsigned side,
                            unsigned n);

// Copies those of n words whose bit is set, in their order. n <= kMaxBatch; up to kPackRoom words behind those that are
// copied are written, too.
constexpr unsigned kPackRoom = 8;
using Pack = void (*)(const uint64_t* from, uint64_t wanted, unsigned n, uint64_t* to);

// Looking up the keys whose bits are set in a mask, in buckets of one type. Keys and hashes as in Kernels::siphash13,
// up to the last wanted one; rule has room for kMaxBatch. n_buckets: whole pages of them. Bit i of a result is 1 when
// key i has a rule, which then is in rule[i]; where it has none, rule[i] may be anything.
struct BucketKernels {
  // In the keys' own buckets. behind: the keys that may lie behind them still; the next bucket of each is asked for.
  uint64_t (*find)(const uint8_t* buckets, uint32_t n_buckets, const uint64_t* const* words, const uint64_t* hash,
                   uint64_t wanted, uint32_t* rule, uint64_t* behind);
  // Those. Overwrites nobody else's rule.
  uint64_t (*find_behind)(const uint8_t* buckets, uint32_t n_buckets, const uint64_t* const* words,
                          const uint64_t* hash, uint64_t behind, uint32_t* rule);
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
  GateV4 gate_v4;
  GateWordsV4 gate_words_v4;
  GateWordsV6 gate_words_v6;
  Pack pack;
  // The answers of the batch to test, as its layout's check().
  uint64_t (*line8_step)(const Line8Step& step);
  BucketKernels buckets[kBucketTypes];  // the exact stage, by BucketType (filter/format/buckets.h)
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
