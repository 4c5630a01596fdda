#include "filter/probe/exact.h"

#include <bit>

#include "filter/format/buckets.h"
#include "filter/format/chunks.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"

namespace weir::filter {

void place_keys(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words, unsigned n,
                uint64_t* place) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    for (unsigned i = 0; i < n; i++) place[i] = weir_bitmap_index(words[0][i]);
  } else {
    kernels.siphash13(shape.secret, words, key_words(shape.shape), n, place);
  }
}

uint64_t filter_check(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words, unsigned n,
                      uint64_t* place) {
  const LayoutKernels& layout = kernels.layout[shape.layout];
  place_keys(kernels, shape, words, n, place);
  if (shape.prefetch) layout.prefetch(shape.filter, place, n);
  return layout.check(shape.filter, place, n);
}

uint32_t exact_find(const ShapeView& shape, const Key& key, uint64_t place) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    const uint32_t index = weir_bitmap_index(key.word[0]);
    const auto* chunk_of = reinterpret_cast<const uint32_t*>(shape.exact);
    return shape.chunks[chunk_of[index / kChunkRules] * kChunkRules + index % kChunkRules];
  }
  return with_bucket_type(shape.shape, [&]<class Bucket>() {
    return find_in_buckets(reinterpret_cast<const Bucket*>(shape.exact), shape.exact_buckets, key, place);
  });
}

uint64_t exact_find_batch(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words,
                          const uint64_t* place, uint64_t wanted, uint32_t* rule) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) {
    uint64_t found = 0;
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      rule[i] = exact_find(shape, Key{{words[0][i]}}, place[i]);
      found |= uint64_t{rule[i] != 0} << i;
    }
    return found;
  }
  uint64_t behind = 0;
  const uint64_t found = exact_find_own(kernels, shape, words, place, wanted, rule, behind);
  return behind == 0 ? found : found | exact_find_behind(kernels, shape, words, place, behind, rule);
}

uint64_t exact_find_own(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words,
                        const uint64_t* place, uint64_t wanted, uint32_t* rule, uint64_t& behind) {
  const BucketKernels& loops = kernels.buckets[bucket_type(shape.shape)];
  return loops.find(shape.exact, shape.exact_buckets, words, place, wanted, rule, &behind);
}

uint64_t exact_find_behind(const Kernels& kernels, const ShapeView& shape, const uint64_t* const* words,
                           const uint64_t* place, uint64_t behind, uint32_t* rule) {
  const BucketKernels& loops = kernels.buckets[bucket_type(shape.shape)];
  return loops.find_behind(shape.exact, shape.exact_buckets, words, place, behind, rule);
}

uint32_t find_rule(const ShapeView& shape, const Key& key) {
  const uint64_t place = shape.layout == WEIR_LAYOUT_BITMAP
                             ? weir_bitmap_index(key.word[0])
                             : weir_siphash13(shape.secret, key.word.data(), key_words(shape.shape));
  return layout_of(shape.layout).check(shape.filter, place) ? exact_find(shape, key, place) : 0;
}

}  // namespace weir::filter
