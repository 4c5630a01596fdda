#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>

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
[[gnu::always_inline]] inline uint64_t slot_word(const Bucket& bucket, unsigned slot, unsigned w) {
  if constexpr (key_words_of<Bucket>() == 1) {
    return bucket.key[slot];
  } else {
    return bucket.key[slot][w];
  }
}

template <class Bucket>
[[gnu::always_inline]] inline bool slot_holds(const Bucket& bucket, unsigned slot, const Key& key) {
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

// The bucket types as numbers: indexes into Kernels::buckets.
enum BucketType : uint8_t { kBucketV4, kBucketV4Port, kBucketV6, kBucketV6Port, kBucketFlow };
constexpr unsigned kBucketTypes = 5;

constexpr BucketType bucket_type(KeyShape shape) {
  if (shape.flow) return shape.family == 4 ? kBucketV6 : kBucketFlow;
  if (shape.family == 4) return shape.with_port ? kBucketV4Port : kBucketV4;
  return shape.with_port ? kBucketV6Port : kBucketV6;
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

[[gnu::always_inline]] inline uint32_t overflow_bit(uint64_t hash) {
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

// The rule of the key in one bucket, 0 when it is not there: that of the first slot with the key's bytes. Slots are
// filled from the first on, so a free one (rule 0) that happens to have the same bytes lies behind the key's own.
template <class Bucket>
[[gnu::always_inline]] inline uint32_t rule_in_bucket(const Bucket& bucket, const Key& key) {
  uint32_t rule = 0;
  for (unsigned slot = kSlots<Bucket>; slot-- > 0;) rule = slot_holds(bucket, slot, key) ? bucket.rule[slot] : rule;
  return rule;
}

// The rule of the key, 0 when it is not there. The definition; Kernels::buckets look up many keys at once.
template <class Bucket>
uint32_t find_in_buckets(const Bucket* buckets, uint32_t n_buckets, const Key& key, uint64_t hash) {
  const BucketPath<const Bucket> path(buckets, n_buckets, hash);
  for (uint32_t step = 0; step < kBucketsPerPage<Bucket>; step++) {
    const Bucket& bucket = path.at(step);
    const uint32_t rule = rule_in_bucket(bucket, key);
    if (rule != 0 || (bucket.overflow & overflow_bit(hash)) == 0) return rule;
  }
  return 0;
}

enum class Insertion : uint8_t { done, duplicate, page_full };

// The rest of insert_into_buckets, for a key whose own bucket is full or has it.
template <class Bucket>
[[gnu::noinline]] Insertion insert_along(const BucketPath<Bucket>& path, const Key& key, uint64_t hash, uint32_t rule) {
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

// rule > 0. Puts the key into the first free slot on its path. Buckets are half full when a key comes, so which slot
// that is, is anybody's guess: the own bucket is looked at without a branch.
template <class Bucket>
[[gnu::always_inline]] inline Insertion insert_into_buckets(Bucket* buckets, uint32_t n_buckets, const Key& key,
                                                            uint64_t hash, uint32_t rule) {
  const BucketPath<Bucket> path(buckets, n_buckets, hash);
  Bucket& own = path.at(0);
  unsigned taken = 0, same = 0;
  for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
    const unsigned is_taken = own.rule[slot] != 0;
    taken += is_taken;
    same |= is_taken & static_cast<unsigned>(slot_holds(own, slot, key));
  }
  if (taken == kSlots<Bucket> || same != 0) return insert_along(path, key, hash, rule);
  store_key(own, taken, key);
  own.rule[taken] = rule;
  return Insertion::done;
}

}  // namespace weir::filter
