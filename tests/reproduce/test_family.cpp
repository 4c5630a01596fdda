// The Bloom filter's relatives of this folder beside std::set and std::map: each finds every member or keeps what it
// promises instead, and its rate is that of its formula.

#include <map>
#include <set>

#include "tests/catch.h"
#include "tests/reproduce/coded_set.h"
#include "tests/reproduce/counting.h"
#include "tests/reproduce/estimate.h"
#include "tests/reproduce/forgetting.h"
#include "tests/reproduce/hash_choice.h"
#include "tests/reproduce/learned.h"
#include "tests/reproduce/maplets.h"
#include "tests/reproduce/several_layers.h"

using namespace weir::reproduce;

namespace {

constexpr uint64_t kKeys = 50'000, kBits = 12 * kKeys, kQueries = 1'000'000;

template <class Filter>
void fill(Filter& filter, uint64_t keys = kKeys) {
  for (uint64_t key = 0; key < keys; key++) REQUIRE(filter.insert(scatter(key)));
  if constexpr (requires { filter.finish(); }) filter.finish();
}

template <class Test>
uint64_t count_if(uint64_t first, uint64_t n, Test test) {
  uint64_t found = 0;
  for (uint64_t key = first; key < first + n; key++) found += test(scatter(key));
  return found;
}

// Five standard errors of the sampling, and 3 % for what the formula and one filter of this size leave out.
void check_share(uint64_t seen, uint64_t asked, double expected) {
  const double share = double(seen) / double(asked);
  INFO("share " << share << ", expected " << expected);
  CHECK(std::abs(share - expected) < 0.03 * expected + 5 * std::sqrt(expected * (1 - expected) / double(asked)));
}

// No member is lost, however few keys there are, and strangers pass at the rate.
template <class Filter>
void check_set(Filter& filter, double expected) {
  fill(filter);
  CHECK(count_if(0, kKeys, [&](uint64_t hash) { return filter.check(hash); }) == kKeys);
  check_share(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash); }), kQueries, expected);
}

template <class Filter>
double own_rate(Filter& filter) {
  fill(filter);
  return filter.rate();
}

}  // namespace

TEST_CASE("other ways of choosing a key's bits find every member") {
  BitFilter one(Standard<1>{kBits}, kBits);
  check_set(one, standard_rate(kKeys, kBits, 1));
  BitFilter enhanced(EnhancedDouble<8>{kBits}, kBits);
  check_set(enhanced, standard_rate(kKeys, kBits, 8));
  BitFilter triple(TripleHashing<8>{kBits}, kBits);
  check_set(triple, standard_rate(kKeys, kBits, 8));
  BitFilter sliced(Sliced<8>{kBits}, kBits);
  check_set(sliced, standard_rate(kKeys, kBits, 8));
}

TEST_CASE("slices do not overlap and stay inside") {
  const Sliced<8> layout{1003};
  for (uint64_t key = 0; key < 1000; key++) {
    for (unsigned i = 0; i < 8; i++) {
      REQUIRE(layout.position(scatter(key), i) >= i * 125);
      REQUIRE(layout.position(scatter(key), i) < (i + 1) * 125);
    }
  }
}

TEST_CASE("chosen hash functions leave fewer ones than chance") {
  ChosenHashes asked(kKeys, kBits), same(kKeys, kBits);
  check_set(asked, own_rate(same));
  CHECK(asked.ones() < 0.96 * (1 - std::exp(-8 / 12.0)));
  ChosenLines lines(kKeys, kBits), same_lines(kKeys, kBits);
  check_set(lines, own_rate(same_lines));
  CHECK(lines.rate() < 0.0040);  // line8 has 0.0042
}

TEST_CASE("fixed sets that were asked for nothing hold nothing") {
  GolombCodedSet coded(kKeys);
  coded.finish();
  CHECK(count_if(0, kKeys, [&](uint64_t hash) { return coded.check(hash); }) == 0);
  Bloomier bloomier(1000);
  bloomier.finish();
  CHECK(count_if(0, 100'000, [&](uint64_t hash) { return bloomier.check(hash); }) < 600);  // of 391 by accident
}

TEST_CASE("weighted filter: both classes find every member, each has its rate") {
  WeightedBloom filter(kBits);
  for (uint64_t key = 0; key < kKeys; key++) REQUIRE(filter.insert(scatter(key), key % 10 == 0));
  for (uint64_t key = 0; key < kKeys; key++) REQUIRE(filter.check(scatter(key), key % 10 == 0));
  for (const bool often : {true, false}) {
    check_share(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash, often); }), kQueries,
                WeightedBloom::rate_of(kKeys, kBits, often));
  }
}

TEST_CASE("Golomb-coded set answers as the set of its short hashes") {
  GolombCodedSet coded(kKeys);
  check_set(coded, coded.rate());
  CHECK(double(coded.bits()) < 10.3 * double(kKeys));
  std::set<uint64_t> values;
  for (uint64_t key = 0; key < kKeys; key++) values.insert(reduce(scatter(key), kKeys << GolombCodedSet::kRate));
  for (uint64_t key = 0; key < kQueries; key++) {
    const uint64_t hash = scatter(kStrangers + key);
    REQUIRE(coded.check(hash) == values.contains(reduce(hash, kKeys << GolombCodedSet::kRate)));
  }
}

TEST_CASE("Golomb-coded set of few keys far apart") {
  GolombCodedSet coded(1'000);
  std::set<uint64_t> keys;
  for (const uint64_t hash : {uint64_t{0}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}}) {
    coded.insert(hash);
    keys.insert(reduce(hash, 1'000 << GolombCodedSet::kRate));
  }
  coded.finish();
  for (const uint64_t hash : {uint64_t{0}, uint64_t{1} << 40, uint64_t{1} << 63, ~uint64_t{0}})
    CHECK(coded.check(hash));
  for (uint64_t value = 0; value < 1'000 << GolombCodedSet::kRate; value++) {
    const uint64_t hash = static_cast<uint64_t>((static_cast<uint128>(value) << 64) / (1'000 << 8)) + 1;
    REQUIRE(coded.check(hash) == keys.contains(reduce(hash, 1'000 << GolombCodedSet::kRate)));
  }
}

TEST_CASE("hash compaction") {
  HashCompaction filter(kKeys);
  check_set(filter, HashCompaction::rate());
}

TEST_CASE("variable increments find every member, delete, and beat counters of one") {
  VariableIncrements filter(6 * kKeys);
  check_set(filter, VariableIncrements::rate(kKeys, 6 * kKeys));
  for (uint64_t key = 0; key < kKeys; key += 2) filter.erase(scatter(key));
  CHECK(count_if(0, kKeys, [&](uint64_t hash) { return filter.check(hash); }) < kKeys / 2 + kKeys / 100);
  for (uint64_t key = 1; key < kKeys; key += 2) REQUIRE(filter.check(scatter(key)));
  CHECK(VariableIncrements::rate(1, 6) < standard_rate(1, 6, 6) / 4);
}

TEST_CASE("dynamic filter: equal stages, rates that add up") {
  ScalableBloom filter(kKeys / 5, 0.0042, 1, 1);
  fill(filter);
  CHECK(filter.stages() == 5);
  CHECK(filter.rate() == Approx(5 * 0.0042).epsilon(0.05));
  CHECK(count_if(0, kKeys, [&](uint64_t hash) { return filter.check(hash); }) == kKeys);
  check_share(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash); }), kQueries,
              filter.rate());
}

TEST_CASE("Bloomier filter answers every member with its value") {
  Bloomier filter(kKeys);
  check_set(filter, 1 / 256.0);
  std::map<uint64_t, uint32_t> values;
  for (uint64_t key = 0; key < kKeys; key++) values[scatter(key)] = Bloomier::value_of(scatter(key));
  for (const auto& [hash, value] : values) REQUIRE(filter.value(hash) == value);
  CHECK(std::set<uint32_t>{Bloomier::value_of(1), Bloomier::value_of(2), Bloomier::value_of(3)}.size() == 3);
}

TEST_CASE("compact approximator is never too small") {
  CompactApproximator filter(kBits);
  check_set(filter, standard_rate(kKeys, kBits, 8));
  uint64_t too_large = 0;
  for (uint64_t key = 0; key < kKeys; key++) {
    REQUIRE(filter.value(scatter(key)) >= CompactApproximator::value_of(scatter(key)));
    too_large += !filter.is_exact(scatter(key));
  }
  check_share(too_large, kKeys, CompactApproximator::too_large(kKeys, kBits));
}

TEST_CASE("combinatorial filter has each member's set among its answers") {
  CombinatorialBloom filter(CombinatorialBloom::bits_for(kKeys));
  fill(filter);
  uint64_t ambiguous = 0;
  for (uint64_t key = 0; key < kKeys; key++) {
    REQUIRE(filter.keeps(scatter(key)));
    ambiguous += !filter.is_exact(scatter(key));
  }
  check_share(ambiguous, kKeys, CombinatorialBloom::ambiguous(0.5));
  CHECK(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash); }) < 10);
}

TEST_CASE("layers count at least as often as a key came") {
  LayeredBloom filter(kKeys, 12);
  check_set(filter, standard_rate(kKeys, kBits, 8));
  std::map<unsigned, uint64_t> came;
  for (uint64_t key = 0; key < kKeys; key++) {
    REQUIRE(filter.depth(scatter(key)) >= LayeredBloom::times(scatter(key)));
    came[LayeredBloom::times(scatter(key))]++;
  }
  CHECK(came.size() == 4);
  CHECK(count_if(0, kKeys, [&](uint64_t hash) { return filter.is_exact(hash); }) > kKeys * 99 / 100);
}

TEST_CASE("attenuated filter never sees a key farther away than it is, and a union is the filter of all") {
  AttenuatedBloom filter(kBits / 2);
  check_set(filter, AttenuatedBloom::rate(kKeys, kBits / 2));
  for (uint64_t key = 0; key < kKeys; key++) REQUIRE(filter.level(scatter(key)) <= AttenuatedBloom::hops(scatter(key)));
  const auto exact = count_if(0, kKeys, [&](uint64_t hash) { return filter.is_exact(hash); });
  check_share(kKeys - exact, kKeys, AttenuatedBloom::too_near(kKeys, kBits / 2));

  // Two nodes at each distance, each with half of the keys.
  AttenuatedBloom united(kBits / 2);
  for (unsigned level = 0; level < AttenuatedBloom::kLevels; level++) {
    for (uint64_t node = 0; node < 2; node++) {
      const Words of_node(kBits / 2, kSmallPage);
      for (uint64_t key = node; key < kKeys; key += 2) {
        if (AttenuatedBloom::hops(scatter(key)) == level) mark(Standard<8>{kBits / 2}, of_node.get(), scatter(key));
      }
      united.unite(level, of_node.get());
    }
  }
  for (uint64_t key = 0; key < 2 * kKeys; key++) REQUIRE(united.level(scatter(key)) == filter.level(scatter(key)));
}

TEST_CASE("folding loses no key") {
  FuzzyFoldedBloom filter(kBits), same(kBits);
  check_set(filter, own_rate(same));
  CHECK(filter.folds() >= 3);
  CHECK(filter.bits() <= kBits);
  CHECK(filter.bits() > kBits - 64);
}

TEST_CASE("a stable filter finds the newest key, and forgets as its formula says") {
  StableBloom filter(kBits);
  for (uint64_t key = 0; key < 3 * kKeys; key++) filter.insert(scatter(2 * kStrangers + key));
  for (uint64_t key = 0; key < kKeys; key++) {
    filter.insert(scatter(key));
    REQUIRE(filter.check(scatter(key)));
  }
  check_share(count_if(0, kKeys, [&](uint64_t hash) { return filter.check(hash); }), kKeys,
              StableBloom::kept(kKeys, kBits));
  check_share(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash); }), kQueries,
              StableBloom::rate(4 * kKeys, kBits));
}

TEST_CASE("a generalized filter finds the newest key, forgets, and cannot be filled with ones") {
  GeneralizedBloom filter(kBits);
  for (uint64_t key = 0; key < kKeys; key++) {
    filter.insert(scatter(key));
    REQUIRE(filter.check(scatter(key)));
  }
  check_share(count_if(0, kKeys, [&](uint64_t hash) { return filter.check(hash); }), kKeys,
              GeneralizedBloom::kept(kKeys, kBits));
  check_share(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash); }), kQueries,
              GeneralizedBloom::rate(kKeys, kBits));
  for (uint64_t key = 0; key < 20 * kKeys; key++) filter.insert(scatter(2 * kStrangers + key));
  check_share(count_if(kStrangers, kQueries, [&](uint64_t hash) { return filter.check(hash); }), kQueries, 1 / 256.0);
}

TEST_CASE("retouching takes known strangers out, and members with them") {
  RetouchedBloom filter(kBits);
  fill(filter);
  std::set<uint64_t> retouched;
  for (uint64_t key = kStrangers; retouched.size() < 1000; key++) {
    if (filter.retouch(scatter(key))) retouched.insert(scatter(key));
  }
  for (const uint64_t hash : retouched) REQUIRE_FALSE(filter.check(hash));
  const double share = RetouchedBloom::cleared_share(1000, kKeys, kBits);
  check_share(count_if(0, kKeys, [&](uint64_t hash) { return !filter.check(hash); }), kKeys,
              1 - std::pow(1 - share, 8));
}

TEST_CASE("what was removed is gone, and so are the false positives of the removed") {
  WithRemoved filter(kBits, kBits / 10);
  fill(filter);
  for (uint64_t key = 0; key < kKeys / 10; key++) filter.remove(scatter(key));
  CHECK(count_if(0, kKeys / 10, [&](uint64_t hash) { return filter.check(hash); }) == 0);
  check_share(count_if(kKeys / 10, kKeys * 9 / 10, [&](uint64_t hash) { return !filter.check(hash); }), kKeys * 9 / 10,
              standard_rate(kKeys / 10.0, kBits / 10.0, 8));
}

TEST_CASE("bits tell how many keys there are, in one set, in both and in either") {
  const Standard<8> layout{kBits};
  const Words one(kBits, kSmallPage), other(kBits, kSmallPage);
  for (uint64_t key = 0; key < kKeys; key++) mark(layout, one.get(), scatter(key));
  for (uint64_t key = kKeys / 2; key < kKeys * 5 / 4; key++) mark(layout, other.get(), scatter(key));
  const SetEstimate made = estimate(one.get(), other.get(), kBits, 8);
  const double error = 6 * cardinality_error(kKeys * 1.25, kBits, 8);
  CHECK(std::abs(made.one - double(kKeys)) < error);
  CHECK(std::abs(made.other - kKeys * 0.75) < error);
  CHECK(std::abs(made.both_together - kKeys * 1.25) < error);
  CHECK(std::abs(made.in_both - kKeys * 0.5) < 2 * error);
  CHECK(std::abs(made.different() - kKeys * 0.75) < 3 * error);
  CHECK(made.tanimoto() == Approx(0.4).epsilon(0.02));
  CHECK(error < kKeys * 0.02);
  CHECK(cardinality(0, kBits, 8) == 0);
}

TEST_CASE("a learned filter finds every member, with and without bread") {
  std::vector<uint32_t> members;
  std::set<uint32_t> known;
  for (uint64_t i = 0; members.size() < kKeys; i++) {  // most of them in one /6, some anywhere
    auto address = static_cast<uint32_t>(scatter(i));
    if (i % 10 != 0) address = address >> 6 | 0x54000000;
    if (known.insert(address).second) members.push_back(address);
  }
  for (const Sandwich sandwich : {Sandwich::no, Sandwich::yes}) {
    const LearnedBloom::Plan plan = LearnedBloom::plan(members, kBits, sandwich);
    const LearnedBloom filter(members, plan);
    for (const uint32_t address : members) REQUIRE(filter.check(address));
    uint64_t found = 0, said = 0, asked = 0;
    for (uint64_t i = 0; i < kQueries; i++) {
      const auto address = static_cast<uint32_t>(scatter(kStrangers + i));
      if (known.contains(address)) continue;
      asked++, found += filter.check(address), said += filter.model_says(address);
    }
    check_share(found, asked, filter.rate(double(said) / double(asked)));
    CHECK(filter.rate(double(said) / double(asked)) < 2 * plan.rate);
  }
  CHECK(LearnedBloom::plan(members, kBits, Sandwich::yes).rate <=
        LearnedBloom::plan(members, kBits, Sandwich::no).rate);

  const GatedBloom gated(members, GatedBloom::best_leading_bits(members, kBits), kBits);
  uint64_t found = 0, passed = 0;
  for (const uint32_t address : members) REQUIRE(gated.check(address));
  for (uint64_t i = 0; i < kQueries; i++) {
    const auto address = static_cast<uint32_t>(scatter(kStrangers + i));
    found += gated.check(address), passed += gated.model_says(address);
  }
  check_share(found, kQueries, gated.rate(double(passed) / double(kQueries)));
  check_share(passed, kQueries, gated.gate_share());
}
