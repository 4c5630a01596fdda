#pragma once

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "common/prefetch.h"
#include "filter/format/hash.h"
#include "filter/format/key_shape.h"
#include "filter/format/snapshot.h"

// The exact stage's buckets (format and overflow rule: filter/format/snapshot.h). Both directions of it stand here, so
// that what insert writes and what find stops at can be compared by eye.
namespace weir::filter {

template <class Bucket>
constexpr unsigned kSlots = std::extent_v<decltype(Bucket::rule)>;

template <class Bucket>
constexpr uint32_t kBucketsPerPage = WEIR_PAGE_BYTES / sizeof(Bucket);

template <class Bucket>
constexpr unsigned key_words_of() {
  using Slot = std::remove_extent_t<decltype(Bucket::key)>;
  return std::max<unsigned>(1, std::extent_v<Slot>);
}

// Word w of the key in a slot. v4 keeps the half of its only word that is not zero.
template <class Bucket>
uint64_t slot_word(const Bucket& bucket, unsigned slot, unsigned w) {
  if constexpr (key_words_of<Bucket>() == 1) {
    return bucket.key[slot];
  } else {
    return bucket.key[slot][w];
  }
}

template <class Bucket>
bool slot_holds(const Bucket& bucket, unsigned slot, const Key& key) {
  uint64_t differs = 0;
  for (unsigned w = 0; w < key_words_of<Bucket>(); w++) differs |= slot_word(bucket, slot, w) ^ key.word[w];
  return differs == 0;
}

// The key only: the slot stays free until it has a rule.
template <class Bucket>
void store_key(Bucket& bucket, unsigned slot, const Key& key) {
  if constexpr (key_words_of<Bucket>() == 1) {
    using Word = std::remove_extent_t<decltype(Bucket::key)>;
    bucket.key[slot] = static_cast<Word>(key.word[0]);
  } else {
    for (unsigned w = 0; w < key_words_of<Bucket>(); w++) bucket.key[slot][w] = key.word[w];
  }
}

// Calls work.template operator()<Bucket>() with the bucket type of the shape.
template <class Work>
auto with_bucket_type(KeyShape shape, Work work) {
  if (shape.flow) {
    return shape.family == 4 ? work.template operator()<weir_bucket_v6>()
                             : work.template operator()<weir_bucket_flow>();
  }
  if (shape.family == 4) {
    return shape.with_port ? work.template operator()<weir_bucket_v4_port>()
                           : work.template operator()<weir_bucket_v4>();
  }
  return shape.with_port ? work.template operator()<weir_bucket_v6_port>() : work.template operator()<weir_bucket_v6>();
}

inline unsigned slots_per_bucket(KeyShape shape) {
  return with_bucket_type(shape, []<class Bucket>() { return kSlots<Bucket>; });
}

inline uint32_t buckets_per_page(KeyShape shape) {
  return with_bucket_type(shape, []<class Bucket>() { return kBucketsPerPage<Bucket>; });
}

inline uint64_t exact_stage_bytes(KeyShape shape, uint64_t buckets) {
  return buckets / buckets_per_page(shape) * WEIR_PAGE_BYTES;
}

inline uint32_t overflow_bit(uint64_t hash) {
  return 1u << (static_cast<uint32_t>(hash) >> 27);
}

// The buckets that a key may lie in: its own, and from there on around the page.
template <class Bucket>
class BucketPath {
 public:
  BucketPath(Bucket* buckets, uint32_t n_buckets, uint64_t hash) {
    const uint32_t home = weir_hash_range(hash, n_buckets);
    page_ = buckets + home / kBucketsPerPage<Bucket> * kBucketsPerPage<Bucket>;
    home_ = home % kBucketsPerPage<Bucket>;
  }
  Bucket& at(uint32_t step) const { return page_[(home_ + step) % kBucketsPerPage<Bucket>]; }

 private:
  Bucket* page_;
  uint32_t home_;
};

#ifdef __SSE2__
// Seven slots in two overlapping halves.
//
//   lanes   0 1 2 3  and  3 4 5 6      rule where the key is the wanted one, else 0; slot 3 twice
[[gnu::always_inline]] inline uint32_t rule_in_bucket(const weir_bucket_v4& bucket, const Key& key) {
  static_assert(WEIR_SLOTS_V4 == 7);
  const auto lanes = [](const weir_u32* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); };
  const __m128i low_rules = lanes(bucket.rule), high_rules = lanes(bucket.rule + 3);
  const __m128i wanted = _mm_set1_epi32(static_cast<int>(key.word[0]));
  const __m128i low = _mm_and_si128(_mm_cmpeq_epi32(lanes(bucket.key), wanted), low_rules);
  const __m128i high = _mm_and_si128(_mm_cmpeq_epi32(lanes(bucket.key + 3), wanted), high_rules);
  const __m128i both = _mm_or_si128(low, high);  // a key is in one slot: all other lanes are 0
  const __m128i half = _mm_or_si128(both, _mm_unpackhi_epi64(both, both));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(half)) |
         static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_srli_epi64(half, 32)));
}
#endif

// The rule of the key in one bucket, 0 when it is not there. All slots are compared without branches.
template <class Bucket>
[[gnu::always_inline]] inline uint32_t rule_in_bucket(const Bucket& bucket, const Key& key) {
  uint32_t rule = 0;  // max: a free slot (rule 0) may hold the same bytes as a key
  for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
    const uint32_t slots_rule = bucket.rule[slot];
    rule = std::max(rule, slot_holds(bucket, slot, key) ? slots_rule : 0);
  }
  return rule;
}

// True when the key may lie behind this bucket, in which it is not.
template <class Bucket>
bool goes_on(const Bucket& bucket, uint32_t rule, uint64_t hash) {
  const uint32_t overflow = bucket.overflow & overflow_bit(hash);
  return ((rule == 0) & (overflow != 0)) != 0;  // one branch, seldom taken: hits and misses come at random
}

// The rest of the path of a key that is not in its own bucket; at most one page of buckets.
template <class Bucket>
[[gnu::noinline]] uint32_t find_behind(const BucketPath<const Bucket>& path, const Key& key, uint64_t hash) {
  for (uint32_t step = 1; step < kBucketsPerPage<Bucket>; step++) {
    const uint32_t rule = rule_in_bucket(path.at(step), key);
    if (!goes_on(path.at(step), rule, hash)) return rule;
  }
  return 0;
}

// The rule of the key, 0 when it is not there.
template <class Bucket>
uint32_t find_in_buckets(const Bucket* buckets, uint32_t n_buckets, const Key& key, uint64_t hash) {
  const BucketPath<const Bucket> path(buckets, n_buckets, hash);
  const uint32_t rule = rule_in_bucket(path.at(0), key);
  return goes_on(path.at(0), rule, hash) ? find_behind(path, key, hash) : rule;
}

// The same for many keys (SoA) whose bits are set in `wanted`: rule[i] of each, and bit i of the result is 1 when it is
// not 0. All own buckets first; where a key goes on, the next bucket is asked for and looked at after the others.
template <class Bucket>
uint64_t find_batch_in_buckets(const Bucket* buckets, uint32_t n_buckets, const uint64_t* const* words,
                               const uint64_t* hash, uint64_t wanted, uint32_t* rule) {
  const auto key_of = [&](unsigned i) {
    Key key;
    for (unsigned w = 0; w < key_words_of<Bucket>(); w++) key.word[w] = words[w][i];
    return key;
  };
  uint64_t found = 0, behind = 0;
  for (uint64_t left = wanted; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctzll(left));
    const BucketPath<const Bucket> path(buckets, n_buckets, hash[i]);
    rule[i] = rule_in_bucket(path.at(0), key_of(i));
    const bool on = goes_on(path.at(0), rule[i], hash[i]);
    prefetch_line(&path.at(on));
    found |= uint64_t{rule[i] != 0} << i;
    behind |= uint64_t{on} << i;
  }
  for (uint64_t left = behind; left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctzll(left));
    rule[i] = find_behind(BucketPath<const Bucket>(buckets, n_buckets, hash[i]), key_of(i), hash[i]);
    found |= uint64_t{rule[i] != 0} << i;
  }
  return found;
}

enum class Insertion : uint8_t { done, duplicate, page_full };

// rule > 0. Puts the key into the first free slot on its path.
template <class Bucket>
Insertion insert_into_buckets(Bucket* buckets, uint32_t n_buckets, const Key& key, uint64_t hash, uint32_t rule) {
  const BucketPath<Bucket> path(buckets, n_buckets, hash);
  for (uint32_t step = 0; step < kBucketsPerPage<Bucket>; step++) {
    Bucket& bucket = path.at(step);
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
      if (bucket.rule[slot] == 0) {
        store_key(bucket, slot, key);
        bucket.rule[slot] = rule;
        return Insertion::done;
      }
      if (slot_holds(bucket, slot, key)) return Insertion::duplicate;
    }
    bucket.overflow |= overflow_bit(hash);
  }
  return Insertion::page_full;
}

}  // namespace weir::filter
