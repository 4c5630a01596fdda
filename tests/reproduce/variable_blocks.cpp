// The Variably-Sized Block Bloom filter of Walther et al. against one array of the same m bits whose positions come
// from a multiplication (fastrange), from a modulo, or from a mask with m rounded down to a power of two: rate and
// time.

#include "tests/reproduce/variable_blocks.h"

#include <bit>

namespace weir::reproduce {
namespace {

enum class Range { multiply, modulo };

// k probes by double hashing in one array; k is the nearest integer to m/n ln 2.
struct OneArray {
  uint64_t bits;
  unsigned k;
  Range range;

  uint64_t position(uint64_t h1, uint64_t h2, unsigned i) const {
    const uint64_t h = h1 + i * h2;
    return range == Range::multiply ? reduce(h, bits) : h % bits;
  }
  void mark(uint64_t* words, uint64_t hash) const {
    const uint64_t h1 = scatter(hash), h2 = scatter(h1) | 1;
    for (unsigned i = 0; i < k; i++) {
      const uint64_t at = position(h1, h2, i);
      words[at >> 6] |= uint64_t{1} << (at & 63);
    }
  }
  bool check(const uint64_t* words, uint64_t hash) const {
    const uint64_t h1 = scatter(hash), h2 = scatter(h1) | 1;
    for (unsigned i = 0; i < k; i++) {
      if (!bit_at(words, position(h1, h2, i))) return false;
    }
    return true;
  }
};

template <class Filter>
uint64_t fill_with(Filter filter, uint64_t* words, uint64_t n) {
  for (uint64_t key = 0; key < n; key++) filter.mark(words, key);
  return 0;
}

template <class Filter>
uint64_t count(const Filter& filter, const uint64_t* words, uint64_t first, uint64_t n) {
  uint64_t found = 0;
  for (uint64_t key = 0; key < n; key++) found += filter.check(words, first + key);
  return found;
}

Json compare(uint64_t n, uint64_t bits, uint64_t queries, unsigned repetitions) {
  const double exact_k = static_cast<double>(bits) / static_cast<double>(n) * std::log(2);
  const auto k = static_cast<unsigned>(std::round(exact_k));
  const uint64_t power = std::bit_floor(bits);
  const auto k_of_power = static_cast<unsigned>(std::max(1.0, std::round(double(power) / double(n) * std::log(2))));
  const OneArray multiply{bits, k, Range::multiply}, modulo{bits, k, Range::modulo};
  const OneArray masked{power, k_of_power, Range::multiply};  // a multiplication by 2^c is the shift
  const VariableBlocks printed(bits, n, BlockHash::printed, BlockK::rational);
  const VariableBlocks rational(bits, n, BlockHash::independent, BlockK::rational);
  const VariableBlocks rounded(bits, n, BlockHash::independent, BlockK::rounded);

  Json rows = Json::array();
  std::vector<Variant> inserts, lookups, positives;
  std::vector<Words> memory;
  memory.reserve(8);
  const auto add = [&](const char* name, const auto& filter, double expected) {
    uint64_t* words = memory.emplace_back(bits + 64, kHugePage).get();
    fill_with(filter, words, n);
    const double found = static_cast<double>(count(filter, words, kStrangers, queries));
    inserts.push_back({name, [&filter, words, n] { return fill_with(filter, words, n); }});
    lookups.push_back({name, [&filter, words, queries] { return count(filter, words, kStrangers, queries); }});
    positives.push_back({name, [&filter, words, queries] { return count(filter, words, 0, queries); }});
    rows.push_back({{"filter", name}, {"rate", found / double(queries)}, {"expected", expected}});
  };
  const double dn = static_cast<double>(n);
  add("multiply", multiply, standard_rate(dn, double(bits), k));
  add("modulo", modulo, standard_rate(dn, double(bits), k));
  add("power_of_two", masked, standard_rate(dn, double(power), k_of_power));
  add("blocks_as_printed", printed, printed.rate(dn));
  add("blocks_rational", rational, rational.rate(dn));
  add("blocks_rounded", rounded, rounded.rate(dn));

  const std::vector<double> insert_ns = paired_ns(repetitions, n, inserts);
  const std::vector<double> lookup_ns = paired_ns(repetitions, queries, lookups);
  const std::vector<double> positive_ns = paired_ns(repetitions, queries, positives);
  for (size_t i = 0; i < rows.size(); i++) {
    rows[i]["insert_ns"] = insert_ns[i];
    rows[i]["negative_ns"] = lookup_ns[i];
    rows[i]["positive_ns"] = positive_ns[i];
  }
  return {{"keys", n},
          {"bits", bits},
          {"optimal_k", exact_k},
          {"continuous", std::pow(0.5, exact_k)},
          {"blocks", printed.blocks()},
          {"rows", rows}};
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const bool quick = is_quick(argc, argv);
  const uint64_t queries = quick ? 500'000 : 2'000'000;
  Json sizes = Json::array();
  // 12 bits a key at two sizes; then sums of two powers of two, the best case; then nearly the next power of two, the
  // worst.
  for (const auto& [n, bits] : std::vector<std::pair<uint64_t, uint64_t>>{{60'000, 720'000},
                                                                          {1'000'000, 12'000'000},
                                                                          {1'000'000, (1u << 23) + (1u << 22)},
                                                                          {1'000'000, (1u << 24) - 64}}) {
    say("variable blocks: " + std::to_string(n) + " keys, " + std::to_string(bits) + " bits");
    sizes.push_back(compare(n, bits, queries, quick ? 3 : 7));
  }
  if (!quick) {
    say("variable blocks: 10000000 keys, 120000000 bits");
    sizes.push_back(compare(10'000'000, 120'000'000, queries, 3));
  }
  std::printf("%s\n", Json{{"sizes", sizes}}.dump(1).c_str());
}
