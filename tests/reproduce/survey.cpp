// The filters of two surveys (docs/develop/papers.md) at the same keys, beside weir's line8 and two libraries of
// Debian: from a 16-byte key to an answer. All but the libraries hash with weir's batched SipHash-1-3, prefetch a
// batch, then test it.

#include "tests/reproduce/bit_filters.h"
#include "tests/reproduce/counting.h"
#include "tests/reproduce/fingerprints.h"
#include "tests/reproduce/keyed_candidates.h"

#ifdef REPRODUCE_LIBCUCKOO
#include <libcuckoo/cuckoohash_map.hh>
#endif
#ifdef REPRODUCE_LIBBLOOM
#include <bloom.h>
#endif

namespace weir::reproduce {
namespace {

// The keys' hashes alone: part of every row but the libraries'.
Candidate hash_alone() {
  Candidate made{"(key and SipHash alone)", "weir", 0, 0, 0, {}, {}, {}};
  made.count = [](uint64_t first, uint64_t keys) {
    uint64_t sum = 0;
    each_batch(first, keys, [&](const uint64_t* hash, unsigned batch) { sum += hash[0] & batch & 0; });
    return first < kStrangers ? keys + sum : sum;  // answers as an exact set would
  };
  return made;
}

#ifdef REPRODUCE_LIBCUCKOO
using Key = std::array<uint64_t, 2>;
Key key_of(uint64_t i) {
  return {scatter(i), i};
}
struct KeyedHash {
  size_t operator()(const Key& key) const { return weir_siphash13(kSecret, key.data(), 2); }
};
using CuckooMap = libcuckoo::cuckoohash_map<Key, uint32_t, KeyedHash>;

Candidate libcuckoo_map(CuckooMap& map, uint64_t n) {
  Candidate made{"libcuckoo map (exact)", "Debian libcuckoo-dev", 0, 0, 0, {}, {}, {}};
  made.insert = [&map](uint64_t first, uint64_t keys) {
    for (uint64_t i = 0; i < keys; i++) map.insert(key_of(first + i), 1);
  };
  made.insert_ns = timed_ns(n, [&] { made.insert(0, n); });
  const double slot_bytes = sizeof(CuckooMap::value_type) + 2;  // and its partial key and occupied flag
  made.bits_per_key = static_cast<double>(map.capacity()) * slot_bytes * 8 / static_cast<double>(n);
  made.count = [&map](uint64_t first, uint64_t keys) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < keys; i++) found += map.contains(key_of(first + i));
    return found;
  };
  made.erase = [&map](uint64_t first, uint64_t keys) {
    for (uint64_t i = 0; i < keys; i++) map.erase(key_of(first + i));
  };
  return made;
}
#endif

#ifdef REPRODUCE_LIBBLOOM
Candidate libbloom(bloom& filter, uint64_t n) {
  if (bloom_init(&filter, static_cast<int>(n), 0.0042) != 0) give_up("libbloom: bloom_init failed");
  Candidate made{"libbloom", "Debian libbloom-dev", double(filter.bits) / double(n), 0.0042, 0, {}, {}, {}};
  const auto key_of = [](uint64_t i) { return std::array<uint64_t, 2>{scatter(i), i}; };
  made.insert_ns = timed_ns(n, [&] {
    for (uint64_t i = 0; i < n; i++) bloom_add(&filter, key_of(i).data(), 16);
  });
  made.count = [&filter, key_of](uint64_t first, uint64_t keys) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < keys; i++) found += bloom_check(&filter, key_of(first + i).data(), 16) == 1;
    return found;
  };
  return made;
}
#endif

Json survey(uint64_t n, unsigned repetitions) {
  say("survey: filling with " + std::to_string(n) + " keys");
  const double dn = static_cast<double>(n);
  const uint64_t bits = 12 * n;
  BitFilter standard(Standard<8>{bits}, bits);
  const auto lines = LineBlocked<8>::of_bits(bits);
  BitFilter blocked(lines, lines.blocks << 9);
  CountingBloom counting(bits);
  DLeftCounting d_left(DLeftCounting::buckets_for(n));
  CuckooFilter cuckoo(n);
  QuotientFilter quotient(QuotientFilter::slots_for(n));
  ScalableBloom scalable(n / 31 + 1, 0.0042);  // five stages
  const Words line8_words(bits + 512, kHugePage);
  const Line8Filter line8_filter(line8_words.get(), bits);

  std::vector<Candidate> candidates;
  candidates.push_back(hash_alone());
  candidates.push_back(line8(line8_filter, n, 12));
  candidates.push_back(candidate("Bloom, k = 8", standard, n, standard_rate(dn, double(bits), 8)));
  candidates.push_back(candidate("blocked Bloom, k = 8", blocked, n, blocked_rate(dn, double(lines.blocks), 512, 8)));
  candidates.push_back(candidate("counting Bloom, k = 8", counting, n, standard_rate(dn, double(bits), 8)));
  candidates.push_back(candidate("d-left counting", d_left, n, 24 / 16384.0));
  candidates.push_back(candidate("cuckoo, 12 bits", cuckoo, n, 8 * CuckooFilter::kLoad / 4095));
  candidates.push_back(candidate("quotient, load 0.75", quotient, n, 0.75 / 8192));
  candidates.push_back(candidate("scalable Bloom", scalable, n, 0));
  candidates.back().expected_rate = scalable.rate();
#ifdef REPRODUCE_LIBBLOOM
  bloom library_filter;
  candidates.push_back(libbloom(library_filter, n));
#endif
#ifdef REPRODUCE_LIBCUCKOO
  CuckooMap map(n);
  candidates.push_back(libcuckoo_map(map, n));
#endif
  say("survey: measuring " + std::to_string(candidates.size()) + " filters");
  const Json rows = measure(candidates, n, repetitions);
#ifdef REPRODUCE_LIBBLOOM
  bloom_free(&library_filter);
#endif
  return rows;
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const bool quick = is_quick(argc, argv);
  Json sizes = Json::array();
  sizes.push_back(
      {{"keys", quick ? 200'000 : 1'000'000}, {"rows", survey(quick ? 200'000 : 1'000'000, quick ? 3 : 7)}});
  if (!quick) sizes.push_back({{"keys", 10'000'000}, {"rows", survey(10'000'000, 5)}});
  std::printf("%s\n", Json{{"sizes", sizes}}.dump(1).c_str());
}
