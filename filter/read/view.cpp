#include "filter/read/view.h"

#include <unistd.h>

#include <bit>

#include "filter/build/networks.h"
#include "filter/format/buckets.h"
#include "filter/format/siphash.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"
#include "filter/read/validate.h"

namespace weir::filter {
namespace {

constexpr size_t kUsualL2Bytes = 1 << 20;  // where the system does not tell

}  // namespace

// A filter in L2 is faster without prefetches, 0.53 against 0.75 ns a key (FILTERS 3.1). A quarter of L2 is left to
// packets and tables.
bool outgrows_l2(size_t filter_bytes) {
  static const long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return filter_bytes > (l2 > 0 ? static_cast<size_t>(l2) : kUsualL2Bytes) / 4 * 3;
}

Result<SnapshotView> SnapshotView::open(std::span<const std::byte> bytes) {
  if (auto ok = validate_snapshot(bytes); !ok) return Error{ok.error()};

  const auto* base = reinterpret_cast<const uint8_t*>(bytes.data());
  SnapshotView view;
  view.header_ = reinterpret_cast<const weir_snapshot_header*>(base);
  view.lists_ = reinterpret_cast<const weir_list*>(base + view.header_->lists.offset);
  view.sets_ = reinterpret_cast<const weir_set*>(base + view.header_->sets.offset);
  view.rules_ = reinterpret_cast<const weir_rule*>(base + view.header_->rules.offset);
  view.residuals_ = reinterpret_cast<const weir_residual*>(base + view.header_->residuals.offset);
  for (uint32_t i = 0; i < view.header_->n_shapes; i++) {
    const weir_shape& shape = view.header_->shapes[i];
    const bool hashed = shape.layout != WEIR_LAYOUT_BITMAP;
    const uint8_t* exact = base + shape.exact.offset;
    view.shapes_[i] = {
        .shape = shape_of(shape),
        .layout = static_cast<weir_layout>(shape.layout),
        .directions = shape.directions,
        .prefetch = outgrows_l2(shape.filter.used_bytes),
        .secret = view.header_->secret,
        .filter = {base + shape.filter.offset, shape.filter_lines, shape.k},
        .exact_lines = {exact, hashed ? static_cast<uint32_t>(shape.exact.used_bytes / WEIR_LINE_BYTES) : 0, 0},
        .exact_buckets = shape.exact_buckets,
        .exact = exact,
        .chunks = hashed ? nullptr : reinterpret_cast<const uint32_t*>(base + shape.chunks.offset),
    };
  }
  return view;
}

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
