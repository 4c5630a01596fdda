#pragma once

#include <immintrin.h>

#include <cstdint>
#include <type_traits>

#include "common/prefetch.h"
#include "filter/format/buckets.h"
#include "filter/kernels/kernels.h"

// Looking up a batch of keys in buckets, around what an instruction set does with one bucket. Static, so that every
// kernel library has its own (kernels.h).
//
// A Compare says for one bucket type:
//   Bucket
//   Found in_bucket(const Bucket&, const uint64_t* const* words, unsigned i)    key i, in one bucket
//   uint64_t found(const uint8_t* held, const uint32_t* rule, unsigned n)       bit i: held[i] and rule[i] are not 0;
//                                                                               bits from n on may be anything
namespace weir::filter {

struct Found {
  uint32_t rule;  // of the first slot with the key's bytes; when there is none, any word of the bucket
  uint32_t held;  // 0: there is none. Below 256
};

template <class Compare>
struct FindBatch {
  using Bucket = typename Compare::Bucket;
  static constexpr unsigned kWords = std::rank_v<decltype(Bucket::key)> == 1 ? 1 : sizeof(Bucket::key[0]) / 8;
  static constexpr uint32_t kPerPage = WEIR_PAGE_BYTES / sizeof(Bucket);

  const Bucket* buckets;
  uint32_t n_buckets;
  const uint64_t* words[kWords];
  const uint64_t* hash;
  uint32_t* rule;

  [[gnu::always_inline]] uint32_t home(unsigned i) const { return weir_hash_range(hash[i], n_buckets); }
};

// Before a function that used vectors returns: with upper halves in use, instructions of SSE, which most other code
// has, cost hundreds of cycles. Compilers do this; GCC 12 forgets it where a call stands near the end.
[[gnu::always_inline]] static inline void end_of_vectors() {
#ifdef __AVX__
  _mm256_zeroupper();
#endif
}

// The rest of the path of a key that is not in its own bucket; at most one page of buckets. True when it is there.
template <class Compare>
[[gnu::noinline]] static bool find_behind(const FindBatch<Compare>& batch, unsigned i) {
  constexpr uint32_t kPerPage = FindBatch<Compare>::kPerPage;
  const uint32_t home = batch.home(i), overflow = overflow_bit(batch.hash[i]);
  const auto* page = batch.buckets + home / kPerPage * kPerPage;
  for (uint32_t step = 1; step < kPerPage; step++) {
    const auto& bucket = page[(home + step) % kPerPage];
    const Found found = Compare::in_bucket(bucket, batch.words, i);
    batch.rule[i] = found.rule;
    if (found.held != 0 && found.rule != 0) return true;
    if ((bucket.overflow & overflow) == 0) return false;
  }
  return false;
}

// Of `keys`, which are not in their own buckets, those that may lie behind them. Their next buckets are asked for.
template <class Compare>
[[gnu::noinline]] static uint64_t may_lie_behind(const FindBatch<Compare>& batch, uint64_t keys) {
  constexpr uint32_t kPerPage = FindBatch<Compare>::kPerPage;
  uint64_t behind = 0;
  for (uint64_t left = keys; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctzll(left));
    const uint32_t home = batch.home(i);
    const bool goes_on = (batch.buckets[home].overflow & overflow_bit(batch.hash[i])) != 0;
    const uint32_t next = home / kPerPage * kPerPage + (home + 1) % kPerPage;
    prefetch_line(&batch.buckets[goes_on ? next : home]);  // without a branch: hits and misses come at random
    behind |= uint64_t{goes_on} << i;
  }
  return behind;
}

template <class Compare>
[[gnu::always_inline]] static inline FindBatch<Compare> batch_of(const uint8_t* buckets, uint32_t n_buckets,
                                                                 const uint64_t* const* words, const uint64_t* hash,
                                                                 uint32_t* rule) {
  using Batch = FindBatch<Compare>;
  Batch batch = {reinterpret_cast<const typename Batch::Bucket*>(buckets), n_buckets, {}, hash, rule};
  for (unsigned w = 0; w < Batch::kWords; w++) batch.words[w] = words[w];
  return batch;
}

// BucketKernels::find. Keys side by side (a batch that went around its filter), and single ones among many (what a
// filter let through), have a loop each: that of the first has no bits to search, and all its answers are made at the
// end.
template <class Compare>
static uint64_t find_own(const uint8_t* buckets, uint32_t n_buckets, const uint64_t* const* words, const uint64_t* hash,
                         uint64_t wanted, uint32_t* rule, uint64_t* behind) {
  const FindBatch<Compare> batch = batch_of<Compare>(buckets, n_buckets, words, hash, rule);
  uint64_t found = 0;
  if ((wanted & (wanted + 1)) == 0) {
    const auto n = static_cast<unsigned>(__builtin_popcountll(wanted));
    alignas(64) uint8_t held[kMaxBatch];
    for (unsigned i = 0; i < n; i++) {
      const Found in = Compare::in_bucket(batch.buckets[batch.home(i)], batch.words, i);
      rule[i] = in.rule;
      held[i] = static_cast<uint8_t>(in.held);
    }
    found = Compare::found(held, rule, n) & wanted;
  } else {
    for (uint64_t left = wanted; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(__builtin_ctzll(left));
      const Found in = Compare::in_bucket(batch.buckets[batch.home(i)], batch.words, i);
      rule[i] = in.rule;
      found |= uint64_t{in.held != 0 && in.rule != 0} << i;
    }
  }
  *behind = found == wanted ? 0 : may_lie_behind(batch, wanted & ~found);
  end_of_vectors();
  return found;
}

// BucketKernels::find_behind.
template <class Compare>
static uint64_t find_rest(const uint8_t* buckets, uint32_t n_buckets, const uint64_t* const* words,
                          const uint64_t* hash, uint64_t behind, uint32_t* rule) {
  const FindBatch<Compare> batch = batch_of<Compare>(buckets, n_buckets, words, hash, rule);
  uint64_t found = 0;
  for (uint64_t left = behind; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctzll(left));
    found |= uint64_t{find_behind(batch, i)} << i;
  }
  return found;
}

template <class Compare>
static constexpr BucketKernels kBucketKernels = {find_own<Compare>, find_rest<Compare>};

}  // namespace weir::filter
