#include <vector>

#include "common/histogram.h"
#include "tests/catch.h"

using namespace weir;

TEST_CASE("every value is in the bucket whose range holds it, to 1/64") {
  for (unsigned octave = 0; octave < kHistogramBits; octave++) {
    for (const uint64_t offset : {0, 1, 2, 63, 64, 65, 1000}) {
      const uint64_t value = (uint64_t{1} << octave) + offset;
      if (value >> kHistogramBits != 0) continue;
      const uint32_t bucket = bucket_of(value);
      REQUIRE(bucket < kHistogramBuckets);
      CHECK(bucket_upper(bucket) >= value);
      if (bucket > 0) CHECK(bucket_upper(bucket - 1) < value);
      CHECK(bucket_upper(bucket) - value <= value / 64);
    }
  }
  for (uint64_t value = 0; value < 128; value++) CHECK(bucket_upper(bucket_of(value)) == value);
}

TEST_CASE("buckets follow each other, and the last one takes all that is larger") {
  for (uint32_t bucket = 0; bucket < kHistogramBuckets; bucket++) {
    CHECK(bucket_of(bucket_upper(bucket)) == bucket);
    if (bucket > 0) CHECK(bucket_of(bucket_upper(bucket - 1) + 1) == bucket);
  }
  CHECK(bucket_upper(kHistogramBuckets - 1) == (uint64_t{1} << kHistogramBits) - 1);
  CHECK(bucket_of(UINT64_MAX) == kHistogramBuckets - 1);
}

TEST_CASE("percentiles are the upper end of the bucket that holds the rank") {
  const std::vector<Bucket> buckets = {{10, 500}, {20, 490}, {30, 9}, {1000, 1}};
  CHECK(count_of(buckets) == 1000);
  CHECK(percentile(buckets, 0.5) == 10);
  CHECK(percentile(buckets, 0.501) == 20);
  CHECK(percentile(buckets, 0.99) == 20);
  CHECK(percentile(buckets, 0.999) == 30);
  CHECK(percentile(buckets, 1) == 1000);
  CHECK(largest(buckets) == 1000);
  CHECK(percentile({}, 0.5) == 0);
  CHECK(largest({}) == 0);
}
