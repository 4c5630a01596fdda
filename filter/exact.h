#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "filter/key_shape.h"
#include "filter/layouts/line8.h"
#include "filter/snapshot.h"

// The exact stage's buckets (format and overflow rule: filter/snapshot.h). Both directions of it stand here, so that
// what insert() writes and what find() stops at can be compared by eye.
namespace weir::filter {

inline bool slot_holds(const weir_bucket_v4& bucket, unsigned slot, const Key& key) {
  return bucket.key[slot] == static_cast<uint32_t>(key.word[0]);
}
inline bool slot_holds(const weir_bucket_v4_port& bucket, unsigned slot, const Key& key) {
  return bucket.key[slot] == key.word[0];
}
inline bool slot_holds(const weir_bucket_v6& bucket, unsigned slot, const Key& key) {
  return ((bucket.key[slot][0] ^ key.word[0]) | (bucket.key[slot][1] ^ key.word[1])) == 0;
}
inline bool slot_holds(const weir_bucket_v6_port& bucket, unsigned slot, const Key& key) {
  return ((bucket.key[slot][0] ^ key.word[0]) | (bucket.key[slot][1] ^ key.word[1]) |
          (bucket.key[slot][2] ^ key.word[2])) == 0;
}

inline void fill_slot(weir_bucket_v4& bucket, unsigned slot, const Key& key, uint32_t rule) {
  bucket.key[slot] = static_cast<uint32_t>(key.word[0]);
  bucket.rule[slot] = rule;
}
inline void fill_slot(weir_bucket_v4_port& bucket, unsigned slot, const Key& key, uint32_t rule) {
  bucket.key[slot] = key.word[0];
  bucket.rule[slot] = rule;
}
template <class Bucket>  // v6, v6 with port
void fill_slot(Bucket& bucket, unsigned slot, const Key& key, uint32_t rule) {
  std::copy_n(key.word.begin(), std::size(bucket.key[slot]), bucket.key[slot]);
  bucket.rule[slot] = rule;
}

// Calls work.template operator()<Bucket>() with the bucket type of the shape.
template <class Work>
auto with_bucket_type(KeyShape shape, Work work) {
  if (shape.family == 4) {
    return shape.with_port ? work.template operator()<weir_bucket_v4_port>()
                           : work.template operator()<weir_bucket_v4>();
  }
  return shape.with_port ? work.template operator()<weir_bucket_v6_port>() : work.template operator()<weir_bucket_v6>();
}

template <class Bucket>
constexpr unsigned kSlots = std::extent_v<decltype(Bucket::rule)>;

inline unsigned slots_per_bucket(KeyShape shape) {
  return with_bucket_type(shape, []<class Bucket>() { return kSlots<Bucket>; });
}

inline uint32_t overflow_bit(uint64_t hash) {
  return 1u << (static_cast<uint32_t>(hash) >> 27);
}

// The rule of the key, 0 when it is not there. All slots of a bucket are compared without branches; at most 64 buckets.
template <class Bucket>
uint32_t find_in_buckets(const Bucket* buckets, uint32_t n_buckets, const Key& key, uint64_t hash) {
  const uint32_t home = weir_hash_range(hash, n_buckets);
  const Bucket* page = buckets + home / WEIR_LINES_PER_PAGE * WEIR_LINES_PER_PAGE;
  for (uint32_t step = 0; step < WEIR_LINES_PER_PAGE; step++) {
    const Bucket& bucket = page[(home + step) % WEIR_LINES_PER_PAGE];
    uint32_t rule = 0;  // max: a free slot (rule 0) may hold the same bytes as a key
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
      rule = std::max(rule, slot_holds(bucket, slot, key) ? bucket.rule[slot] : 0);
    }
    if (rule != 0 || (bucket.overflow & overflow_bit(hash)) == 0) return rule;
  }
  return 0;
}

enum class Insertion : uint8_t { done, duplicate, page_full };

// rule > 0. Puts the key into the first free slot on its path.
template <class Bucket>
Insertion insert_into_buckets(Bucket* buckets, uint32_t n_buckets, const Key& key, uint64_t hash, uint32_t rule) {
  const uint32_t home = weir_hash_range(hash, n_buckets);
  Bucket* page = buckets + home / WEIR_LINES_PER_PAGE * WEIR_LINES_PER_PAGE;
  for (uint32_t step = 0; step < WEIR_LINES_PER_PAGE; step++) {
    Bucket& bucket = page[(home + step) % WEIR_LINES_PER_PAGE];
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
      if (bucket.rule[slot] == 0) {
        fill_slot(bucket, slot, key, rule);
        return Insertion::done;
      }
      if (slot_holds(bucket, slot, key)) return Insertion::duplicate;
    }
    bucket.overflow |= overflow_bit(hash);
  }
  return Insertion::page_full;
}

}  // namespace weir::filter
