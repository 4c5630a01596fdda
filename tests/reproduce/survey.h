// One row of the survey's table: a filter, how it is asked, and what it costs. Keys are 16 bytes, members 0..n-1.
#pragma once

#include "tests/reproduce/measure.h"

namespace weir::reproduce {

constexpr unsigned kBatch = 64;  // keys in one call, where there are such calls

struct Candidate {
  std::string name, source;
  double bits_per_key;
  double expected_rate;                                           // by formula; 0: exact or unknown
  double insert_ns;                                               // mean over filling it
  std::function<uint64_t(uint64_t first, uint64_t n)> count;      // of those keys, how many may be present
  std::function<void(uint64_t first, uint64_t n)> insert, erase;  // empty: no deletes
};

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
    if (candidate.count(0, n) != n) give_up(candidate.name + " has lost keys");
    constexpr uint64_t kForRate = 4'000'000;
    const double rate = double(candidate.count(kStrangers + n, kForRate)) / double(kForRate);
    Json row = {{"filter", candidate.name},
                {"source", candidate.source},
                {"keys", n},
                {"rate", rate},
                {"expected", candidate.expected_rate},
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
