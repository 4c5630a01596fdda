// The definition, one key at a time: the shared C headers in loops.

#include "filter/kernels/kernels.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/line8.h"
#include "filter/siphash.h"

namespace weir::filter {
namespace {

template <unsigned kWords>
void siphash13_words(const uint64_t secret[2], const uint64_t* const* words, unsigned n, uint64_t* hash) {
  for (unsigned i = 0; i < n; i++) {
    uint64_t key[kWords];
    for (unsigned w = 0; w < kWords; w++) key[w] = words[w][i];
    hash[i] = weir_siphash13(secret, key, kWords);
  }
}

void siphash13(const uint64_t secret[2], const uint64_t* const* words, unsigned n_words, unsigned n, uint64_t* hash) {
  switch (n_words) {
    case 1:
      return siphash13_words<1>(secret, words, n, hash);
    case 2:
      return siphash13_words<2>(secret, words, n, hash);
    default:
      return siphash13_words<3>(secret, words, n, hash);
  }
}

void prefetch(const uint8_t* lines, uint32_t n_lines, const uint64_t* hash, unsigned n) {
  for (unsigned i = 0; i < n; i++) {
    __builtin_prefetch(lines + size_t{weir_hash_range(hash[i], n_lines)} * WEIR_LINE_BYTES);
  }
}

uint64_t line8_check(const uint8_t* filter, uint32_t filter_lines, const uint64_t* hash, unsigned n) {
  const auto* words = reinterpret_cast<const weir_u64*>(filter);
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) {
    const weir_u64* line = words + size_t{weir_hash_range(hash[i], filter_lines)} * 8;
    hits |= uint64_t{weir_line8_check(line, hash[i])} << i;
  }
  return hits;
}

uint64_t bitmap_check(const uint8_t* bitmap, const uint32_t* index, unsigned n) {
  uint64_t hits = 0;
  for (unsigned i = 0; i < n; i++) hits |= uint64_t{weir_bitmap_check(bitmap, index[i])} << i;
  return hits;
}

bool usable() {
  return true;
}

}  // namespace

constinit const Kernels kScalarKernels = {
    .name = "scalar",
    .usable = usable,
    .siphash13 = siphash13,
    .prefetch = prefetch,
    .line8_check = line8_check,
    .bitmap_check = bitmap_check,
};

}  // namespace weir::filter
