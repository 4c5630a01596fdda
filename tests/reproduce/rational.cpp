// The Rational Bloom filter of Walther et al.: its false-positive rate over k at the paper's m = 131,072 and n =
// 60,000, against the continuous formula and against the mixture that follows from the construction; and whether any
// non-integer k can beat the integers.

#include "tests/reproduce/rational.h"

namespace weir::reproduce {
namespace {

constexpr uint64_t kBits = 131'072, kKeys = 60'000;  // section 4 of the paper

struct Measured {
  double rate, standard_error;
};

// Mean over filters with hash functions of their own; its standard error from their spread, which holds both the chance
// of the queries and that of the filters.
Measured measure(double k, Activation activation, unsigned filters, uint64_t queries) {
  double sum = 0, squares = 0;
  Words words(kBits, kSmallPage);
  for (unsigned f = 0; f < filters; f++) {
    words.clear();
    const Rational filter{kBits, k, activation, (uint64_t{f} << 32) + static_cast<uint64_t>(k * 1024)};
    for (uint64_t key = 0; key < kKeys; key++) filter.mark(words.get(), key);
    uint64_t found = 0;
    for (uint64_t key = 0; key < queries; key++) found += filter.check(words.get(), kStrangers + key);
    const double rate = static_cast<double>(found) / static_cast<double>(queries);
    sum += rate;
    squares += rate * rate;
  }
  const double mean = sum / filters, variance = (squares - sum * mean) / (filters - 1);
  return {mean, std::sqrt(variance / filters)};
}

Json curve(bool quick) {
  Json rows = Json::array();
  const double step = quick ? 0.25 : 0.125;
  const unsigned filters = quick ? 24 : 96;
  const uint64_t queries = quick ? 50'000 : 200'000;
  for (double k = 0.5; k <= 4; k += step) {
    Json row = {{"k", k},
                {"mixture", mixture_rate(double(kKeys), double(kBits), k)},
                {"continuous", continuous_rate(double(kKeys), double(kBits), k)},
                {"ones", fill(double(kKeys), double(kBits), k)}};
    for (const auto& [name, activation] :
         {std::pair{"reused", Activation::reused}, {"independent", Activation::independent}}) {
      const Measured measured = measure(k, activation, filters, queries);
      row[name] = measured.rate;
      row[std::string(name) + "_error"] = measured.standard_error;
    }
    rows.push_back(row);
  }
  say("rational: the curve is measured");
  return rows;
}

// For m/n from 0.5 to 40 bits a key: the lowest mixture at any real k on a fine grid, over the lowest at an integer k.
// k below 1 (some keys are not stored at all, and pass) is kept apart: it can pay in filters that are hopelessly full.
Json best_gain() {
  const double n = 1e6;
  double lowest = 2, at_bits = 0, at_k = 0, pays_below_bits = 0;
  for (double bits = 0.5; bits <= 40; bits += 0.05) {
    double integer = 1;
    for (double k = 1; k <= 40; k++) integer = std::min(integer, mixture_rate(n, n * bits, k));
    for (double k = 1.0 / 64; k <= 40; k += 1.0 / 64) {
      if (k == std::floor(k)) continue;
      const double ratio = mixture_rate(n, n * bits, k) / integer;
      if (k < 1 && ratio < 1) pays_below_bits = bits;
      if (k > 1 && ratio < lowest) lowest = ratio, at_bits = bits, at_k = k;
    }
  }
  return {{"lowest_ratio_to_best_integer", lowest},
          {"bits_per_key", at_bits},
          {"k", at_k},
          {"k_below_1_pays_up_to_bits_per_key", pays_below_bits}};
}

}  // namespace
}  // namespace weir::reproduce

int main(int argc, char** argv) {
  using namespace weir::reproduce;
  const Json result = {{"bits", kBits},
                       {"keys", kKeys},
                       {"optimal_k", std::log(2) * double(kBits) / double(kKeys)},
                       {"curve", curve(is_quick(argc, argv))},
                       {"best_gain", best_gain()}};
  std::printf("%s\n", result.dump(1).c_str());
}
