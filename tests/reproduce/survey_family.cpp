// The relatives of the Bloom filter that the three texts name (docs/develop/why-not.md), in groups that are measured
// beside line8, as the survey's filters are.

#include "tests/reproduce/bit_filters.h"
#include "tests/reproduce/coded_set.h"
#include "tests/reproduce/counting.h"
#include "tests/reproduce/forgetting.h"
#include "tests/reproduce/hash_choice.h"
#include "tests/reproduce/keyed_candidates.h"
#include "tests/reproduce/maplets.h"
#include "tests/reproduce/several_layers.h"

namespace weir::reproduce {
namespace {

constexpr unsigned kBitsPerKey = 12;
constexpr uint64_t kElsewhere = uint64_t{1} << 44;  // keys that are neither members nor the strangers of measure()

struct Size {
  uint64_t n;
  double dn, dbits;
  uint64_t bits;
  unsigned repetitions;
};

// line8 and the others of one group, in one memory.
struct Group {
  explicit Group(const Size& size)
      : words(size.bits + 512, kHugePage), filter(words.get(), size.bits), rows{line8(filter, size.n, kBitsPerKey)} {}
  Words words;
  Line8Filter filter;
  std::vector<Candidate> rows;
};

template <class Filter>
Candidate bloom(const char* name, Filter& filter, const Size& size, double bits, double k) {
  Candidate made = candidate(name, filter, size.n, standard_rate(size.dn, bits, k));
  made.spread = bloom_spread(size.dn, bits, k);
  return made;
}

Json of_hashing(const Size& size) {
  Group group(size);
  BitFilter one(Standard<1>{size.bits}, size.bits);
  BitFilter enhanced(EnhancedDouble<8>{size.bits}, size.bits);
  BitFilter triple(TripleHashing<8>{size.bits}, size.bits);
  BitFilter sliced(Sliced<8>{size.bits}, size.bits);
  ChosenHashes chosen(size.n, size.bits);
  ChosenLines lines(size.n, size.bits);
  WeightedBloom weighted(size.bits);
  group.rows.push_back(bloom("table of presence bits, k = 1", one, size, size.dbits, 1));
  group.rows.push_back(bloom("Bloom, enhanced double hashing", enhanced, size, size.dbits, 8));
  group.rows.push_back(bloom("Bloom, triple hashing", triple, size, size.dbits, 8));
  group.rows.push_back(bloom("partitioned in slices", sliced, size, size.dbits, 8));
  group.rows.push_back(candidate("partitioned hashing (Hao et al.)", chosen, size.n, 0));
  group.rows.back().expected_rate = chosen.rate();
  group.rows.push_back(candidate("line8 with a choice of 16 hashes", lines, size.n, 0));
  group.rows.back().expected_rate = lines.rate();

  // Members and strangers by number: a tenth and nine tenths of them are of the class that is asked for often.
  const auto often = [](uint64_t first, uint64_t i) { return (i % 10 == 0) == (first < kStrangers); };
  const auto each = [&weighted, often](uint64_t first, uint64_t keys, auto visit) {
    uint64_t at = 0;
    each_batch(first, keys, [&](const uint64_t* hash, unsigned batch) {
      for (unsigned i = 0; i < batch; i++) weighted.prefetch(hash[i], often(first, at + i));
      for (unsigned i = 0; i < batch; i++, at++) visit(hash[i], often(first, at));
    });
  };
  Candidate made;
  made.name = "weighted Bloom";
  made.source = "test-only";
  made.bits_per_key = size.dbits / size.dn;
  made.expected_rate = WeightedBloom::rate(size.dn, size.dbits);
  made.spread = bloom_spread(size.dn, size.dbits, 8);
  made.insert_ns = timed_ns(
      size.n, [&] { each(0, size.n, [&](uint64_t hash, bool is_often) { weighted.insert(hash, is_often); }); });
  made.count = [&weighted, each](uint64_t first, uint64_t keys) {
    uint64_t found = 0;
    each(first, keys, [&](uint64_t hash, bool is_often) { found += weighted.check(hash, is_often); });
    return found;
  };
  for (const bool is_often : {true, false}) {
    constexpr uint64_t kAsked = 1'000'000;
    uint64_t found = 0;
    each_batch(kElsewhere, kAsked, [&](const uint64_t* hash, unsigned batch) {
      for (unsigned i = 0; i < batch; i++) found += weighted.check(hash[i], is_often);
    });
    made.claims.push_back({is_often ? "strangers of the class asked for often" : "strangers of the other class",
                           WeightedBloom::rate_of(size.dn, size.dbits, is_often), kAsked, found});
  }
  group.rows.push_back(made);
  return measure(group.rows, size.n, size.repetitions);
}

Json of_coded_sets(const Size& size) {
  Group group(size);
  GolombCodedSet coded(size.n);
  HashCompaction compaction(size.n);
  VariableIncrements increments(6 * size.n);
  ScalableBloom dynamic(size.n / 5 + 1, 0.0042, 1, 1);  // five stages
  group.rows.push_back(candidate("Golomb-coded set", coded, size.n, coded.rate()));
  group.rows.push_back(candidate("hash compaction, load 0.75", compaction, size.n, HashCompaction::rate()));
  group.rows.push_back(
      candidate("counting by variable increments", increments, size.n, VariableIncrements::rate(size.dn, 6 * size.dn)));
  group.rows.back().spread = bloom_spread(size.dn, 6 * size.dn, VariableIncrements::kProbes);
  group.rows.push_back(candidate("dynamic (incremental) Bloom", dynamic, size.n, 0));
  group.rows.back().expected_rate = dynamic.rate();
  group.rows.back().spread = bloom_spread(size.dn, size.dbits, 8);
  return measure(group.rows, size.n, size.repetitions);
}

Json of_maplets(const Size& size) {
  Group group(size);
  Bloomier bloomier(size.n);
  CompactApproximator approximator(size.bits);
  const uint64_t combinatorial_bits = CombinatorialBloom::bits_for(size.n);
  CombinatorialBloom combinatorial(combinatorial_bits);
  group.rows.push_back(candidate("Bloomier, 16-bit values", bloomier, size.n, 1 / 256.0));
  group.rows.push_back(candidate("compact approximator", approximator, size.n, standard_rate(size.dn, size.dbits, 8)));
  group.rows.back().spread = bloom_spread(size.dn, size.dbits, 8);
  group.rows.back().claims = {{"members answered too large", CompactApproximator::too_large(size.dn, size.dbits),
                               size.n, size.n - group.rows.back().exact}};
  group.rows.push_back(
      candidate("combinatorial Bloom, 256 sets", combinatorial, size.n, CombinatorialBloom::stranger_rate(0.5)));
  group.rows.back().claims = {
      {"members whose set is ambiguous", CombinatorialBloom::ambiguous(0.5), size.n, size.n - group.rows.back().exact}};
  return measure(group.rows, size.n, size.repetitions);
}

Json of_layers(const Size& size) {
  Group group(size);
  LayeredBloom layered(size.n, kBitsPerKey);
  const uint64_t level_bits = size.bits / 2;  // 12 a key for the largest level
  AttenuatedBloom attenuated(level_bits);
  FuzzyFoldedBloom folded(size.bits);
  group.rows.push_back(bloom("layered Bloom, 4 layers", layered, size, size.dbits, 8));
  // A key counts once too often when the layer below its deepest has it in the end, or when one had it as it came: that
  // is less likely, the layer was still filling.
  const double in_the_end = standard_rate(size.dn, size.dbits, 8);
  double as_it_came = 0;
  for (int i = 0; i < 1000; i++) as_it_came += standard_rate(size.dn * (i + 0.5) / 1000, size.dbits, 8) / 1000;
  group.rows.back().claims = {{"members counted too often",
                               7 / 8.0 * in_the_end + (1 / 2.0 + 2 / 4.0 + 3 / 8.0) * as_it_came, size.n,
                               size.n - group.rows.back().exact}};
  group.rows.push_back(
      candidate("attenuated Bloom, 3 levels", attenuated, size.n, AttenuatedBloom::rate(size.dn, double(level_bits))));
  group.rows.back().spread = bloom_spread(size.dn / 2, double(level_bits), 8);
  group.rows.back().claims = {{"members seen too near", AttenuatedBloom::too_near(size.dn, double(level_bits)), size.n,
                               size.n - group.rows.back().exact}};
  group.rows.push_back(candidate("fuzzy-folded Bloom", folded, size.n, 0));
  group.rows.back().expected_rate = folded.rate();
  return measure(group.rows, size.n, size.repetitions);
}

Json of_forgetting(const Size& size) {
  Group group(size);
  StableBloom stable(size.bits);
  GeneralizedBloom generalized(size.bits);
  RetouchedBloom retouched(size.bits);
  const uint64_t removed = size.n / 10;
  WithRemoved with_removed(size.bits, removed * kBitsPerKey);

  // The stream began long ago.
  each_batch(kElsewhere, 3 * size.n, [&](const uint64_t* hash, unsigned batch) {
    for (unsigned i = 0; i < batch; i++) stable.prefetch(hash[i]);
    for (unsigned i = 0; i < batch; i++) stable.insert(hash[i]);
  });
  group.rows.push_back(candidate("stable Bloom", stable, size.n, StableBloom::rate(4 * size.dn, size.dbits)));
  group.rows.back().expected_kept = StableBloom::kept(size.dn, size.dbits);
  group.rows.back().spread = bloom_spread(size.dn, size.dbits, 8);

  group.rows.push_back(
      candidate("generalized Bloom, 4 set, 4 clear", generalized, size.n, GeneralizedBloom::rate(size.dn, size.dbits)));
  group.rows.back().expected_kept = GeneralizedBloom::kept(size.dn, size.dbits);
  group.rows.back().spread = bloom_spread(size.dn, size.dbits, 8);

  group.rows.push_back(candidate("retouched Bloom", retouched, size.n, 0));
  const uint64_t wanted = std::min<uint64_t>(size.n / 50, 20'000);
  uint64_t cleared = 0;
  for (uint64_t first = kElsewhere; cleared < wanted; first += kBatch) {
    each_batch(first, kBatch, [&](const uint64_t* hash, unsigned batch) {
      for (unsigned i = 0; i < batch; i++) retouched.prefetch(hash[i]);
      for (unsigned i = 0; i < batch && cleared < wanted; i++) cleared += retouched.retouch(hash[i]);
    });
  }
  const double share = RetouchedBloom::cleared_share(double(cleared), size.dn, size.dbits);
  group.rows.back().expected_rate = standard_rate(size.dn, size.dbits, 8) * std::pow(1 - share, 8);
  group.rows.back().expected_kept = std::pow(1 - share, 8);
  group.rows.back().spread = bloom_spread(size.dn, size.dbits, 8);

  group.rows.push_back(candidate("Bloom and one of the removed", with_removed, size.n, 0));
  each_batch(kElsewhere, removed, [&](const uint64_t* hash, unsigned batch) {
    for (unsigned i = 0; i < batch; i++) with_removed.remove(hash[i]);
  });
  const double in_removed = standard_rate(double(removed), double(removed * kBitsPerKey), 8);
  group.rows.back().bits_per_key = double(with_removed.bits()) / size.dn;
  group.rows.back().expected_rate = standard_rate(size.dn, size.dbits, 8) * (1 - in_removed);
  group.rows.back().expected_kept = 1 - in_removed;
  group.rows.back().spread = bloom_spread(size.dn, size.dbits, 8);
  return measure(group.rows, size.n, size.repetitions);
}

// Ten times as many keys as a filter was made for, by somebody who may insert: what it says to strangers and to the
// members that were there before.
Json flood(uint64_t n) {
  const uint64_t bits = kBitsPerKey * n;
  BitFilter standard(Standard<8>{bits}, bits);
  GeneralizedBloom generalized(bits);
  constexpr uint64_t kAsked = 1'000'000;
  Json rows = Json::array();
  const auto add = [](auto& filter, uint64_t first, uint64_t keys) {
    each_batch(first, keys, [&](const uint64_t* hash, unsigned batch) {
      for (unsigned i = 0; i < batch; i++) filter.insert(hash[i]);
    });
  };
  const auto row = [&](const char* name, auto& filter, double of_strangers, double of_members) {
    add(filter, 0, n);
    add(filter, kElsewhere, 10 * n);
    const auto found = [&](uint64_t first, uint64_t asked) {
      return count_of(filter, first, asked, [&](uint64_t hash) { return filter.check(hash); });
    };
    rows.push_back({{"filter", name},
                    {"keys", n},
                    {"flood", 10 * n},
                    {"asked", kAsked},
                    {"strangers", found(kStrangers, kAsked)},
                    {"expected_strangers", of_strangers},
                    {"asked_members", n},
                    {"members", found(0, n)},
                    {"expected_members", of_members}});
  };
  const double m = double(bits), dn = double(n);
  row("Bloom, k = 8", standard, standard_rate(11 * dn, m, 8), 1);
  const double age = 10.5 * dn;  // of the members, on average: by then it hardly matters
  row("generalized Bloom, 4 set, 4 clear", generalized, GeneralizedBloom::rate(11 * dn, m),
      std::pow(0.5 + 0.5 * std::exp(-8 * age / m), 8));
  return rows;
}

Json family(uint64_t n, unsigned repetitions) {
  const Size size{n, double(n), double(n * kBitsPerKey), n * kBitsPerKey, repetitions};
  Json rows = Json::array();
  const auto add = [&](const char* what, Json (*measured)(const Size&)) {
    say(std::string("survey of the family: ") + what + ", " + std::to_string(n) + " keys");
    for (Json& row : measured(size)) {
      if (row["filter"] == "line8" && !rows.empty()) continue;  // the first group's stands for all
      rows.push_back(row);
    }
  };
  add("hashing", of_hashing);
  add("coded sets", of_coded_sets);
  add("values", of_maplets);
  add("layers", of_layers);
  add("forgetting", of_forgetting);
  return rows;
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const bool quick = is_quick(argc, argv);
  const uint64_t n = quick ? 200'000 : 1'000'000;
  Json sizes = Json::array();
  sizes.push_back({{"keys", n}, {"rows", family(n, quick ? 3 : 5)}});
  if (!quick) sizes.push_back({{"keys", 10'000'000}, {"rows", family(10'000'000, 3)}});
  std::printf("%s\n", Json{{"family_sizes", sizes}, {"flood", flood(quick ? 100'000 : 1'000'000)}}.dump(1).c_str());
}
