#include "common/histogram.h"

#include <algorithm>
#include <cmath>

namespace weir {

uint64_t count_of(std::span<const Bucket> buckets) {
  uint64_t count = 0;
  for (const Bucket& bucket : buckets) count += bucket.count;
  return count;
}

uint64_t percentile(std::span<const Bucket> buckets, double fraction) {
  const uint64_t n = count_of(buckets);
  if (n == 0) return 0;
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(n))), 1, n);
  uint64_t below = 0;
  for (const Bucket& bucket : buckets) {
    below += bucket.count;
    if (below >= rank) return bucket.upper;
  }
  return 0;
}

uint64_t largest(std::span<const Bucket> buckets) {
  return percentile(buckets, 1);
}

}  // namespace weir
