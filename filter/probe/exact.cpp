#include "filter/probe/exact.h"

#include <bit>

#include "filter/format/buckets.h"
#include "filter/format/chunks.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"

namespace weir::filter {

void hash_keys(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words, unsigned n,
               uint64_t* hash) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    for (unsigned i = 0; i < n; i++) hash[i] = weir_bitmap_index(words[0][i]);
  } else {
    kernels.siphash13(shape.secret, words, key_words(shape.shape), n, hash);
  }
}

uint64_t filter_check(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words, unsigned n,
                      uint64_t* hash) {
  const LayoutKernels& layout = kernels.layout[shape.layout];
  hash_keys(kernels, shape, words, n, hash);
  if (shape.prefetch) layout.prefetch(shape.filter, hash, n);
  return layout.check(shape.filter, hash, n);
}

uint32_t exact_find(const ShapeView& shape, const Key& key, uint64_t hash) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    const uint32_t index = weir_bitmap_index(key.word[0]);
    const auto* chunk_of = reinterpret_cast<const uint32_t*>(shape.exact);
    return shape.chunks[chunk_of[index / kChunkRules] * kChunkRules + index % kChunkRules];
  }
  return with_bucket_type(shape.shape, [&]<class Bucket>() {
    return find_in_buckets(reinterpret_cast<const Bucket*>(shape.exact), shape.exact_buckets, key, hash);
  });
}

uint64_t exact_find_batch(const ShapeView& shape, const uint64_t* const* words, const uint64_t* hash, uint64_t wanted,
                          uint32_t* rule) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    uint64_t found = 0;
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      rule[i] = exact_find(shape, Key{{words[0][i]}}, hash[i]);
      found |= uint64_t{rule[i] != 0} << i;
    }
    return found;
  }
  return with_bucket_type(shape.shape, [&]<class Bucket>() {
    const auto* buckets = reinterpret_cast<const Bucket*>(shape.exact);
    return find_batch_in_buckets(buckets, shape.exact_buckets, words, hash, wanted, rule);
  });
}

uint32_t find_rule(const ShapeView& shape, const Key& key) {
  const uint64_t hash = shape.layout == WEIR_LAYOUT_BITMAP
                            ? weir_bitmap_index(key.word[0])
                            : weir_siphash13(shape.secret, key.word.data(), key_words(shape.shape));
  return layout_of(shape.layout).check(shape.filter, hash) ? exact_find(shape, key, hash) : 0;
}

}  // namespace weir::filter
