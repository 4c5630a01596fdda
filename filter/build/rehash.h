#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "filter/format/buckets.h"
#include "filter/kernels/kernels.h"

// From the exact stage back to hashes. Filter and exact stage are co-indexed, so the keys of one filter line or page
// lie in a few neighbouring buckets: a part of a filter can be made again from them alone.
namespace weir::filter {

// High halves of hashes, both ends included.
struct HashRange {
  uint32_t first;
  uint32_t last;
  bool holds(uint64_t hash) const { return static_cast<uint32_t>(hash >> 32) - first <= last - first; }
};

// The least high half that range reduction to n places sends to `place` (0..n; n: past the end, 2^32).
inline uint64_t first_hash_of(uint64_t place, uint32_t n) {
  return ((place << 32) + n - 1) / n;
}

// What range reduction to n places sends to `place`.
inline HashRange hashes_of(uint32_t place, uint32_t n) {
  return {static_cast<uint32_t>(first_hash_of(place, n)),
          static_cast<uint32_t>(first_hash_of(uint64_t{place} + 1, n) - 1)};
}

// Calls visit(bucket) for every bucket in which a key of the range may lie: their own ones, and in each page those that
// full ones sent keys on to.
template <class Bucket, class Visit>
void visit_buckets(Bucket* buckets, uint32_t n_buckets, HashRange range, Visit visit) {
  constexpr uint32_t kPage = kBucketsPerPage<Bucket>;
  const uint32_t first = weir_hash_range(uint64_t{range.first} << 32, n_buckets);
  const uint32_t last = weir_hash_range(uint64_t{range.last} << 32, n_buckets);
  for (uint32_t page = first / kPage; page <= last / kPage; page++) {
    Bucket* of_page = buckets + size_t{page} * kPage;
    const uint32_t begin = page == first / kPage ? first % kPage : 0;
    const uint32_t end = page == last / kPage ? last % kPage : kPage - 1;
    for (uint32_t step = 0; step < kPage; step++) {
      Bucket& bucket = of_page[(begin + step) % kPage];
      visit(bucket);
      if (begin + step >= end && bucket.overflow == 0) break;
    }
  }
}

// Appends the hashes of all keys in the table whose high half lies in the range.
template <class Bucket>
void collect_hashes(const Kernels& kernels, const uint64_t secret[2], const Bucket* buckets, uint32_t n_buckets,
                    HashRange range, std::vector<uint64_t>& hashes) {
  constexpr unsigned kWords = key_words_of<Bucket>();
  uint64_t columns[kWords][kMaxBatch], hash[kMaxBatch];
  const uint64_t* words[kWords];
  for (unsigned w = 0; w < kWords; w++) words[w] = columns[w];
  unsigned n = 0;
  const auto flush = [&] {
    kernels.siphash13(secret, words, kWords, n, hash);
    std::copy_if(hash, hash + n, std::back_inserter(hashes), [&](uint64_t h) { return range.holds(h); });
    n = 0;
  };
  visit_buckets(buckets, n_buckets, range, [&](const Bucket& bucket) {
    if (n + kSlots < Bucket >> kMaxBatch) flush();
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {  // without a branch: a third of the slots is free
      for (unsigned w = 0; w < kWords; w++) columns[w][n] = slot_word(bucket, slot, w);
      n += bucket.rule[slot] != 0;
    }
  });
  flush();
}

}  // namespace weir::filter
