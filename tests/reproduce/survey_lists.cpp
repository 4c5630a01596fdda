// Of real lists: what two Bloom filters tell of the number of keys in each, in both and in either, beside exact counts;
// and a learned filter of addresses. Arguments: pairs of lists as FILE,FILE; a file has an address or network of IPv4
// at the beginning of a line. The first file of the first pair is what the learned filter learns.

#include <arpa/inet.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/reproduce/bit_filters.h"
#include "tests/reproduce/estimate.h"
#include "tests/reproduce/learned.h"
#include "tests/reproduce/line8_filter.h"

namespace weir::reproduce {
namespace {

// Address and length of each entry as one number, in the file's order; lines that begin otherwise are left out.
std::vector<uint64_t> read_keys(const std::string& path) {
  std::ifstream file(path);
  if (!file) give_up("cannot read " + path);
  std::vector<uint64_t> keys;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.size(), line.find_first_not_of("0123456789./")));
    uint64_t length = 32;
    if (const size_t slash = line.find('/'); slash != std::string::npos) {
      length = static_cast<uint64_t>(std::atoi(line.c_str() + slash + 1));
      line.resize(slash);
    }
    in_addr address;
    if (length > 32 || inet_pton(AF_INET, line.c_str(), &address) != 1) continue;
    keys.push_back(uint64_t{ntohl(address.s_addr)} << 8 | length);
  }
  return keys;
}

std::vector<uint64_t> distinct(std::vector<uint64_t> keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

// Of estimates with different hash functions.
struct Moments {
  std::vector<double> values;
  double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }
  double deviation() const {
    double sum = 0;
    for (const double value : values) sum += (value - mean()) * (value - mean());
    return std::sqrt(sum / static_cast<double>(values.size() - 1));
  }
};

// `formula`: the deviation that is expected; 0: by nothing but measurement.
Json row_of(const char* what, double exact, const Moments& estimates, double formula) {
  const double error = estimates.deviation() / std::sqrt(static_cast<double>(estimates.values.size()));
  return {{"what", what},
          {"exact", exact},
          {"mean", estimates.mean()},
          {"deviation", estimates.deviation()},
          {"expected_deviation", formula},
          {"error_of_mean", error}};
}

struct Pair {
  std::string name;
  std::vector<uint64_t> one, other;  // sorted, distinct
  uint64_t both, together;
  double exact_ms;
};

Pair pair_of(const std::string& argument) {
  const size_t comma = argument.find(',');
  if (comma == std::string::npos) give_up("not a pair of files: " + argument);
  const std::string paths[2] = {argument.substr(0, comma), argument.substr(comma + 1)};
  const auto name = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  std::vector<uint64_t> keys[2] = {read_keys(paths[0]), read_keys(paths[1])}, both;
  Pair made;
  made.name = name(paths[0]) + ", " + name(paths[1]);
  const double start = thread_ns();
  made.one = distinct(std::move(keys[0]));
  made.other = distinct(std::move(keys[1]));
  std::set_intersection(made.one.begin(), made.one.end(), made.other.begin(), made.other.end(),
                        std::back_inserter(both));
  made.exact_ms = (thread_ns() - start) / 1e6;
  made.both = both.size();
  made.together = made.one.size() + made.other.size() - made.both;
  return made;
}

template <unsigned K>
Json estimates_of(const Pair& pair, unsigned bits_per_key, unsigned repetitions) {
  const uint64_t bits = bits_per_key * std::max(pair.one.size(), pair.other.size());
  const Standard<K> layout{bits};
  Words one(bits, kHugePage), other(bits, kHugePage);
  Moments of_one, of_both, of_together, of_different, of_tanimoto;
  std::vector<double> filling, counting;
  for (uint64_t salt = 1; salt <= repetitions; salt++) {
    one.clear();
    other.clear();
    const double start = thread_ns();
    for (const uint64_t key : pair.one) mark(layout, one.get(), scatter(key ^ scatter(salt)));
    for (const uint64_t key : pair.other) mark(layout, other.get(), scatter(key ^ scatter(salt)));
    filling.push_back((thread_ns() - start) / 1e6);
    const double filled = thread_ns();
    const SetEstimate made = estimate(one.get(), other.get(), bits, K);
    counting.push_back((thread_ns() - filled) / 1e6);
    of_one.values.push_back(made.one);
    of_both.values.push_back(made.in_both);
    of_together.values.push_back(made.both_together);
    of_different.values.push_back(made.different());
    of_tanimoto.values.push_back(made.tanimoto());
  }
  const auto both = double(pair.both), together = double(pair.together), m = double(bits);
  Json rows = Json::array();
  rows.push_back(row_of("one list", double(pair.one.size()), of_one, cardinality_error(double(pair.one.size()), m, K)));
  rows.push_back(row_of("either", together, of_together, cardinality_error(together, m, K)));
  rows.push_back(row_of("both", both, of_both, 0));
  rows.push_back(row_of("one of the two only", together - both, of_different, 0));
  rows.push_back(row_of("Tanimoto", both / together, of_tanimoto, 0));
  return {{"pair", pair.name},
          {"filter", "Bloom, k = " + std::to_string(K)},
          {"bits_per_key", bits_per_key},
          {"repetitions", repetitions},
          {"fill_ms", median(filling)},
          {"count_ms", median(counting)},
          {"exact_ms", pair.exact_ms},
          {"rows", rows}};
}

// From the bits of weir's own layout.
Json line8_estimates(const Pair& pair, unsigned repetitions) {
  const uint64_t lines = (12 * pair.one.size() + 511) / 512;
  Words words(lines * 512, kHugePage);
  const Line8Filter filter(words.get(), lines * 512);
  Moments estimates;
  for (uint64_t salt = 1; salt <= repetitions; salt++) {
    words.clear();
    for (size_t at = 0; at < pair.one.size(); at += 32) {
      uint64_t hash[32];
      const auto batch = static_cast<unsigned>(std::min<size_t>(32, pair.one.size() - at));
      for (unsigned i = 0; i < batch; i++) hash[i] = scatter(pair.one[at + i] ^ scatter(salt));
      filter.mark(hash, batch);
    }
    uint64_t ones = 0;
    for (uint64_t i = 0; i < lines * 8; i++) ones += static_cast<uint64_t>(__builtin_popcountll(words.get()[i]));
    estimates.values.push_back(cardinality(ones, double(lines * 512), 8));
  }
  Json rows = Json::array();
  rows.push_back(row_of("one list", double(pair.one.size()), estimates, 0));
  return {{"pair", pair.name}, {"repetitions", repetitions}, {"rows", rows}};
}

// The bits that two filters share, as a filter of what is in both: the article says that its rate is at most that of
// one of the two, and may be above that of a filter made of the intersection.
Json intersection_rate(const Pair& pair) {
  constexpr unsigned kProbes = 3, kBitsPerKey = 4;  // so few that the differences can be seen
  const uint64_t bits = kBitsPerKey * std::max(pair.one.size(), pair.other.size());
  const Standard<kProbes> layout{bits};
  Words one(bits, kHugePage), other(bits, kHugePage), both(bits, kHugePage), made(bits, kHugePage);
  for (const uint64_t key : pair.one) mark(layout, one.get(), scatter(key));
  for (const uint64_t key : pair.other) mark(layout, other.get(), scatter(key));
  std::vector<uint64_t> shared;
  std::set_intersection(pair.one.begin(), pair.one.end(), pair.other.begin(), pair.other.end(),
                        std::back_inserter(shared));
  for (const uint64_t key : shared) mark(layout, made.get(), scatter(key));
  uint64_t ones = 0;
  for (uint64_t i = 0; i <= bits >> 6; i++) {
    both.get()[i] = one.get()[i] & other.get()[i];
    ones += static_cast<uint64_t>(__builtin_popcountll(both.get()[i]));
  }
  constexpr uint64_t kAsked = 4'000'000;
  Json row = {{"pair", pair.name},
              {"bits_per_key", kBitsPerKey},
              {"asked", kAsked},
              {"expected", std::pow(double(ones) / double(bits), kProbes)},
              {"lost", 0}};
  uint64_t lost = 0, of_both = 0, of_one = 0, of_made = 0;
  for (const uint64_t key : shared) lost += !check(layout, both.get(), scatter(key));
  for (uint64_t i = 0; i < kAsked; i++) {
    const uint64_t hash = scatter(kStrangers + i);
    of_both += check(layout, both.get(), hash);
    of_one += check(layout, one.get(), hash);
    of_made += check(layout, made.get(), hash);
  }
  row["lost"] = lost;
  row["bits_in_both"] = of_both;
  row["one_of_the_two"] = of_one;
  row["made_of_the_intersection"] = of_made;
  return row;
}

Json learned(const Pair& pair, bool quick) {
  std::vector<uint32_t> members;
  for (const uint64_t key : pair.one) {
    if ((key & 255) == 32) members.push_back(static_cast<uint32_t>(key >> 8));
  }
  const auto is_member = [&](uint32_t address) { return std::binary_search(members.begin(), members.end(), address); };
  const auto n = double(members.size());
  const uint64_t asked = quick ? 400'000 : 4'000'000;
  std::vector<uint32_t> uniform, neighbours;  // strangers of two kinds
  for (uint64_t i = 0; uniform.size() < asked; i++) {
    const auto address = static_cast<uint32_t>(scatter(kStrangers + i));
    if (!is_member(address)) uniform.push_back(address);
  }
  for (uint64_t i = 0; neighbours.size() < asked; i++) {  // in the /24 of a member
    const uint64_t drawn = scatter(kStrangers + asked * 2 + i);
    const uint32_t address = (members[reduce(drawn, members.size())] & ~255u) | static_cast<uint32_t>(drawn & 255);
    if (!is_member(address)) neighbours.push_back(address);
  }

  Json rows = Json::array();
  const auto measured = [&](const char* name, double bits, auto& filter, const auto& says, const auto& expected) {
    Json row = {{"filter", name}, {"bits_per_key", bits / n}, {"asked", asked}, {"members", members.size()}};
    uint64_t lost = 0;
    double start = thread_ns();
    for (const uint32_t address : members) lost += !filter.check(address);
    row["member_ns"] = (thread_ns() - start) / n;
    row["false_negatives"] = lost;
    for (const auto& [kind, strangers] : {std::pair{"uniform", &uniform}, std::pair{"neighbours", &neighbours}}) {
      uint64_t found = 0, said = 0;
      start = thread_ns();
      for (const uint32_t address : *strangers) found += filter.check(address);
      row[std::string(kind) + "_ns"] = (thread_ns() - start) / double(asked);
      for (const uint32_t address : *strangers) said += says(address);
      row[std::string(kind) + "_positives"] = found;
      row[std::string(kind) + "_expected"] = expected(double(said) / double(asked));
      row[std::string(kind) + "_said_by_model"] = double(said) / double(asked);
    }
    rows.push_back(row);
    return &rows.back();
  };

  const double bits = 12 * n;
  struct Plain {
    AnyBloom bloom;
    bool check(uint32_t address) const { return bloom.check(scatter(address)); }
  } plain{AnyBloom(n, bits)};
  double start = thread_ns();
  for (const uint32_t address : members) plain.bloom.insert(scatter(address));
  const double insert_ns = (thread_ns() - start) / n;
  (*measured(
      "Bloom, best k", bits, plain, [](uint32_t) { return false; },
      [&](double) { return plain.bloom.rate(); }))["insert_ns"] = insert_ns;
  for (const Sandwich sandwich : {Sandwich::no, Sandwich::yes}) {
    start = thread_ns();
    const LearnedBloom::Plan plan = LearnedBloom::plan(members, bits, sandwich);
    const double planned = thread_ns();
    const LearnedBloom filter(members, plan);
    const double built = thread_ns();
    Json& row = *measured(
        sandwich == Sandwich::yes ? "learned, sandwiched" : "learned", bits, filter,
        [&](uint32_t address) { return filter.model_says(address); }, [&](double said) { return filter.rate(said); });
    row["insert_ns"] = (built - planned) / n;
    row["learn_ns"] = (planned - start) / n;
    row["leading_bits"] = plan.leading_bits;
    row["threshold"] = plan.threshold;
    row["before_bits_per_key"] = plan.before_bits / n;
    row["behind_bits_per_key"] = plan.behind_bits / n;
  }

  start = thread_ns();
  const unsigned leading_bits = GatedBloom::best_leading_bits(members, bits);
  const double planned = thread_ns();
  const GatedBloom gated(members, leading_bits, bits);
  const double built = thread_ns();
  Json& row = *measured(
      "a gate and Bloom, as in weir", bits, gated, [&](uint32_t address) { return gated.model_says(address); },
      [&](double said) { return gated.rate(said); });
  row["insert_ns"] = (built - planned) / n;
  row["learn_ns"] = (planned - start) / n;
  row["leading_bits"] = leading_bits;
  row["threshold"] = 1;
  return rows;
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const bool quick = is_quick(argc, argv);
  const unsigned repetitions = quick ? 8 : 32;
  const char* names = std::getenv("REPRODUCE_SURVEY_PAIRS");
  std::istringstream arguments(names == nullptr ? "" : names);
  Json result = {{"estimates", Json::array()}, {"line8_estimates", Json::array()}, {"learned", Json::array()}};
  for (std::string argument; std::getline(arguments, argument, ';');) {
    const Pair pair = pair_of(argument);
    say("survey of lists: " + pair.name);
    if (pair.one.empty() || pair.other.empty()) give_up(pair.name + ": a list without addresses");
    result["estimates"].push_back(estimates_of<8>(pair, 12, repetitions));
    result["estimates"].push_back(estimates_of<1>(pair, 2, repetitions));
    result["line8_estimates"].push_back(line8_estimates(pair, repetitions));
    if (!result["learned"].empty()) continue;
    result["intersection"] = intersection_rate(pair);
    result["learned"] = learned(pair, quick);
  }
  std::printf("%s\n", result.dump(1).c_str());
}
