#pragma once

#include <bit>
#include <cstdint>
#include <span>

// Log-linear buckets, as HDR histograms have them: 64 in every octave, so a value is known to 1/64 (1.6 %), and values
// below 128 exactly. What a worker writes, what goes over the wire, and what percentiles are read from.
namespace weir {

constexpr unsigned kSubBucketBits = 6;
constexpr unsigned kHistogramBits = 40;  // larger values count as the largest: in cycles, minutes
constexpr uint32_t kSubBuckets = 1u << kSubBucketBits;
constexpr uint32_t kHistogramBuckets = (kHistogramBits - kSubBucketBits + 1) * kSubBuckets;

constexpr uint32_t bucket_of(uint64_t value) {
  if (value < kSubBuckets) return static_cast<uint32_t>(value);
  if (value >> kHistogramBits != 0) return kHistogramBuckets - 1;
  const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kSubBucketBits;
  return shift * kSubBuckets + static_cast<uint32_t>(value >> shift);
}

// The largest value that is counted in the bucket.
constexpr uint64_t bucket_upper(uint32_t bucket) {
  if (bucket < 2 * kSubBuckets) return bucket;
  const unsigned shift = bucket / kSubBuckets - 1;
  return (uint64_t{bucket % kSubBuckets + kSubBuckets + 1} << shift) - 1;
}

// Values from the bucket below up to `upper`.
struct Bucket {
  uint64_t upper = 0;
  uint64_t count = 0;
  bool operator==(const Bucket&) const = default;
};

uint64_t count_of(std::span<const Bucket> buckets);
// The upper end of the bucket that holds the value of this rank, 0 < fraction <= 1; 0 of nothing. Buckets rise.
uint64_t percentile(std::span<const Bucket> buckets, double fraction);
// The upper end of the last bucket with a count.
uint64_t largest(std::span<const Bucket> buckets);

}  // namespace weir
