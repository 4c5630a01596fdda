#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "common/histogram.h"

namespace weir {

// One writer, any number of readers. Compiles to one add.
class Counter {
 public:
  void add(uint64_t n) noexcept { value_.store(get() + n, std::memory_order_relaxed); }
  uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_ = 0;
};

// One writer, any number of readers. A reader sees every count that was there when it began.
class Histogram {
 public:
  void record(uint64_t value, uint64_t n) noexcept { counts_[bucket_of(value)].add(n); }
  // Those with a count.
  std::vector<Bucket> buckets() const {
    std::vector<Bucket> buckets;
    for (uint32_t i = 0; i < kHistogramBuckets; i++) {
      if (const uint64_t count = counts_[i].get(); count != 0) buckets.push_back({bucket_upper(i), count});
    }
    return buckets;
  }

 private:
  Counter counts_[kHistogramBuckets];
};

}  // namespace weir
