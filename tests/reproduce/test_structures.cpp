// The test-only filters of this folder: no false negatives, deletes delete and keep the rest, rates as their formulas
// say.

#include "tests/catch.h"
#include "tests/reproduce/bit_filters.h"
#include "tests/reproduce/counting.h"
#include "tests/reproduce/fingerprints.h"
#include "tests/reproduce/page_hash.h"
#include "tests/reproduce/variable_blocks.h"

using namespace weir::reproduce;

namespace {

constexpr uint64_t kKeys = 50'000, kQueries = 1'000'000;

template <class Filter>
void fill_with_keys(Filter& filter) {
  for (uint64_t key = 0; key < kKeys; key++) REQUIRE(filter.insert(scatter(key)));
}

template <class Filter>
uint64_t members_found(const Filter& filter, uint64_t first, uint64_t n) {
  uint64_t found = 0;
  for (uint64_t key = first; key < first + n; key++) found += filter.check(scatter(key));
  return found;
}

// Five standard errors of the sampling, and 3 % for what the formula leaves out.
template <class Filter>
void check_rate(const Filter& filter, double expected) {
  const double rate = static_cast<double>(members_found(filter, kStrangers, kQueries)) / double(kQueries);
  INFO("rate " << rate << ", expected " << expected);
  CHECK(std::abs(rate - expected) < 0.03 * expected + 5 * std::sqrt(expected / double(kQueries)));
}

template <class Filter>
void check_deletes(Filter& filter) {
  for (uint64_t key = 0; key < kKeys; key += 2) filter.erase(scatter(key));
  uint64_t kept = 0, deleted = 0;
  for (uint64_t key = 0; key < kKeys; key++) (key % 2 != 0 ? kept : deleted) += filter.check(scatter(key));
  CHECK(kept == kKeys / 2);
  CHECK(deleted < kKeys / 100);  // false positives of what is left
  for (uint64_t key = 0; key < kKeys; key += 2) REQUIRE(filter.insert(scatter(key)));
  CHECK(members_found(filter, 0, kKeys) == kKeys);
  for (uint64_t key = 0; key < kKeys; key++) filter.erase(scatter(key));
  CHECK(members_found(filter, 0, kKeys) <= kKeys / 1000);
}

}  // namespace

TEST_CASE("bit filters find their keys, at the rate of their formula") {
  const double n = kKeys;
  BitFilter standard(Standard<7>{12 * kKeys}, 12 * kKeys);
  fill_with_keys(standard);
  CHECK(members_found(standard, 0, kKeys) == kKeys);
  check_rate(standard, standard_rate(n, 12 * n, 7));

  const auto pages = PageBlocked<7>::of_bits(12 * kKeys);
  BitFilter paged(pages, pages.blocks << 15);
  fill_with_keys(paged);
  CHECK(members_found(paged, 0, kKeys) == kKeys);
  check_rate(paged, blocked_rate(n, double(pages.blocks), 32768, 7));

  const auto lines = LineBlocked<8>::of_bits(12 * kKeys);
  BitFilter lined(lines, lines.blocks << 9);
  fill_with_keys(lined);
  CHECK(members_found(lined, 0, kKeys) == kKeys);
  check_rate(lined, blocked_rate(n, double(lines.blocks), 512, 8));
}

TEST_CASE("all forms of lookup agree") {
  const Standard<7> layout{8 * kKeys};
  const Words one(8 * kKeys, kSmallPage), other(8 * kKeys, kSmallPage);
  insert_plain(layout, one.get(), 0, kKeys);
  insert_prefetched(layout, other.get(), 0, kKeys);
  CHECK(std::equal(one.get(), one.get() + kKeys / 8, other.get()));
  for (const uint64_t n : {uint64_t{1}, uint64_t{127}, kKeys}) {
    CHECK(count_plain(layout, one.get(), 0, n) == n);
    CHECK(count_prefetched(layout, one.get(), 0, n) == n);
    CHECK(count_phased(layout, one.get(), 0, n) == n);
  }
  const uint64_t found = count_plain(layout, one.get(), kStrangers, kKeys);
  CHECK(found > 0);
  CHECK(count_prefetched(layout, one.get(), kStrangers, kKeys) == found);
  CHECK(count_phased(layout, one.get(), kStrangers, kKeys) == found);
}

TEST_CASE("the scalable filter grows and stays below its rate") {
  ScalableBloom filter(kKeys / 20, 0.01);
  fill_with_keys(filter);
  CHECK(filter.stages() == 5);  // 1 + 2 + 4 + 8 + 16 twentieths
  CHECK(members_found(filter, 0, kKeys) == kKeys);
  CHECK(members_found(filter, kStrangers, kQueries) < kQueries / 100);
}

TEST_CASE("counting Bloom filter") {
  CountingBloom filter(12 * kKeys);
  fill_with_keys(filter);
  CHECK(members_found(filter, 0, kKeys) == kKeys);
  check_rate(filter, standard_rate(double(kKeys), 12.0 * double(kKeys), 8));
  check_deletes(filter);
}

TEST_CASE("d-left counting filter") {
  DLeftCounting filter(DLeftCounting::buckets_for(kKeys));
  fill_with_keys(filter);
  CHECK(members_found(filter, 0, kKeys) == kKeys);
  check_rate(filter, 24 / 16384.0);
  check_deletes(filter);
}

TEST_CASE("cuckoo filter") {
  CuckooFilter filter(kKeys);
  fill_with_keys(filter);
  CHECK(members_found(filter, 0, kKeys) == kKeys);
  check_rate(filter, 8 * CuckooFilter::kLoad / 4095);
  check_deletes(filter);
}

TEST_CASE("quotient filter") {
  QuotientFilter filter(QuotientFilter::slots_for(kKeys));
  fill_with_keys(filter);
  CHECK(members_found(filter, 0, kKeys) == kKeys);
  check_rate(filter, 0.75 / 8192);
  check_deletes(filter);
}

TEST_CASE("a fingerprint stored twice outlives one deletion") {
  QuotientFilter quotient(1000);
  CuckooFilter cuckoo(1000);
  DLeftCounting d_left(50);
  const auto twice = [](auto& filter) {
    for (int i = 0; i < 2; i++) filter.insert(scatter(7));
    filter.erase(scatter(7));
    CHECK(filter.check(scatter(7)));
    filter.erase(scatter(7));
    CHECK_FALSE(filter.check(scatter(7)));
  };
  twice(quotient);
  twice(cuckoo);
  twice(d_left);
}

TEST_CASE("a full counter is not trusted") {
  CountingBloom filter(1000);
  for (int i = 0; i < 20; i++) filter.insert(scatter(7));
  for (int i = 0; i < 20; i++) filter.erase(scatter(7));
  CHECK(filter.check(scatter(7)));  // five more keys could stand behind its counters
}

TEST_CASE("a full cuckoo filter keeps what it has taken") {
  CuckooFilter filter(1000);
  uint64_t n = 0;
  while (filter.insert(scatter(n))) n++;
  CHECK(n > 900);
  CHECK(members_found(filter, 0, n + 1) == n + 1);  // with the one it could not place
  for (uint64_t key = 0; key <= n; key++) filter.erase(scatter(key));
  CHECK(members_found(filter, 0, n + 1) == 0);
}

TEST_CASE("rational and variable-block filters find their keys") {
  Words words(1 << 17, kSmallPage);
  for (const double k : {0.5, 1.0, 1.5, 2.75}) {
    for (const auto activation : {Activation::reused, Activation::independent}) {
      words.clear();
      const Rational filter{1 << 17, k, activation};
      for (uint64_t key = 0; key < kKeys; key++) filter.mark(words.get(), key);
      uint64_t found = 0;
      for (uint64_t key = 0; key < kKeys; key++) found += filter.check(words.get(), key);
      CHECK(found == kKeys);
    }
  }
  for (const auto hash : {BlockHash::printed, BlockHash::independent}) {
    for (const auto k : {BlockK::rational, BlockK::rounded}) {
      const VariableBlocks filter(600'000, kKeys, hash, k);
      CHECK(filter.bits() <= 600'000);
      CHECK(filter.bits() > 600'000 - 64);
      Words bits(600'000, kSmallPage);
      for (uint64_t key = 0; key < kKeys; key++) filter.mark(bits.get(), key);
      uint64_t found = 0;
      for (uint64_t key = 0; key < kKeys; key++) found += filter.check(bits.get(), key);
      CHECK(found == kKeys);
      if (hash == BlockHash::printed) continue;  // worse than its formula: scripts/reproduce variable-blocks
      uint64_t strangers = 0;
      for (uint64_t key = 0; key < kQueries; key++) strangers += filter.check(bits.get(), kStrangers + key);
      CHECK(double(strangers) / double(kQueries) == Approx(filter.rate(double(kKeys))).epsilon(0.1));
    }
  }
}

TEST_CASE("crafted keys are different, and on one page") {
  const auto keys = keys_of_one_crc(1000);
  const auto by_fnv = keys_of_page([](const TextKey& key) { return fnv1a(key, kFnvBasis); }, 100, 3, 50);
  auto sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  for (const TextKey& key : keys) {
    REQUIRE(crc32c(key, 0) == crc32c(keys[0], 0));
    REQUIRE(crc32c(key, 12345) == crc32c(keys[0], 12345));
  }
  for (const TextKey& key : by_fnv) REQUIRE(reduce(fnv1a(key, kFnvBasis), 100) == 3);
}
