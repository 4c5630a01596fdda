// One row of the survey's table: a filter, how it is asked, and what it costs. Keys are 16 bytes, members 0..n-1.
#pragma once

#include <cmath>

#include "tests/reproduce/measure.h"

namespace weir::reproduce {

constexpr unsigned kBatch = 64;  // keys in one call, where there are such calls

// A share that a formula gives, and the keys in which it was counted.
struct Claim {
  std::string what;
  double expected;
  uint64_t asked, seen;
};

struct Candidate {
  std::string name, source;
  double bits_per_key;
  double expected_rate;                                           // by formula; 0: exact or unknown
  double insert_ns;                                               // mean over filling it
  std::function<uint64_t(uint64_t first, uint64_t n)> count;      // of those keys, how many may be present
  std::function<void(uint64_t first, uint64_t n)> insert, erase;  // empty: no deletes
  std::function<uint64_t()> kept = {};  // members for which it keeps its promise; empty: those that may be present
  uint64_t exact = 0;                   // members that have the best answer, where there are worse
  double expected_kept = 1;             // below 1: the filter loses keys by design
  std::vector<Claim> claims = {};       // what else its formulas say
  double spread = 0;                    // relative standard deviation of the rate from one filter to the next
};

// Of a Bloom filter of k bits a key: its share of ones is not quite what the formula expects.
inline double bloom_spread(double n, double bits, double k) {
  const double load = k * n / bits, zeros = std::exp(-load);
  return k * std::sqrt(zeros * (1 - zeros * (1 + load)) / bits) / (1 - zeros);
}

// Medians of paired repetitions, as rows of JSON.
inline Json measure(std::span<const Candidate> candidates, uint64_t n, unsigned repetitions) {
  const uint64_t queries = std::min<uint64_t>(n, 1'000'000), deletes = std::min<uint64_t>(n / 10, 100'000);
  std::vector<Variant> strangers, members;
  for (const Candidate& candidate : candidates) {
    strangers.push_back({candidate.name, [&candidate, queries] { return candidate.count(kStrangers, queries); }});
    members.push_back({candidate.name, [&candidate, queries] { return candidate.count(0, queries); }});
  }
  const std::vector<double> negative = paired_ns(repetitions, queries, strangers);
  const std::vector<double> positive = paired_ns(repetitions, queries, members);
  Json rows = Json::array();
  for (size_t c = 0; c < candidates.size(); c++) {
    const Candidate& candidate = candidates[c];
    const uint64_t kept = candidate.kept ? candidate.kept() : candidate.count(0, n);
    const uint64_t lost = candidate.expected_kept < 1 ? 0 : n - kept;  // what is lost by design is a claim
    if (lost != 0) say(candidate.name + " has lost keys: " + std::to_string(lost));
    constexpr uint64_t kForRate = 4'000'000;
    const uint64_t positives = candidate.count(kStrangers + n, kForRate);
    Json claims = Json::array();
    if (candidate.expected_kept < 1) {
      claims.push_back(
          {{"what", "members still found"}, {"expected", candidate.expected_kept}, {"asked", n}, {"seen", kept}});
    }
    for (const Claim& claim : candidate.claims) {
      claims.push_back(
          {{"what", claim.what}, {"expected", claim.expected}, {"asked", claim.asked}, {"seen", claim.seen}});
    }
    Json row = {{"filter", candidate.name},
                {"source", candidate.source},
                {"keys", n},
                {"rate", double(positives) / double(kForRate)},
                {"expected", candidate.expected_rate},
                {"asked", kForRate},
                {"positives", positives},
                {"spread", candidate.spread},
                {"false_negatives", lost},
                {"claims", claims},
                {"bits_per_key", candidate.bits_per_key},
                {"insert_ns", candidate.insert_ns},
                {"negative_ns", negative[c]},
                {"positive_ns", positive[c]}};
    if (candidate.erase) {
      std::vector<double> runs;
      for (unsigned r = 0; r < repetitions; r++) {
        const double start = thread_ns();
        candidate.erase(0, deletes);
        runs.push_back((thread_ns() - start) / static_cast<double>(deletes));
        candidate.insert(0, deletes);
      }
      row["delete_ns"] = median(runs);
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace weir::reproduce
