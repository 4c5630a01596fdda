#pragma once

#include <array>
#include <map>
#include <string>

#include "tests/drawn/document.h"

// Many documents, each of a seed of its own: of document i of a run it is the run's seed + i.
namespace weir::drawn {

struct Kind {
  uint64_t n = 0;
  uint64_t first_seed = 0;
  std::string why;  // of the first one
};

struct Tally {
  uint64_t documents = 0;
  std::array<uint64_t, kVerdicts> verdicts{};
  std::map<std::string, std::array<uint64_t, kVerdicts>> formats;
  std::map<std::string, Kind> kinds[kVerdicts];  // of what went wrong

  uint64_t of(Verdict verdict) const { return verdicts[static_cast<size_t>(verdict)]; }
};

Document document_of(uint64_t seed, const std::string& format = "");  // format: empty: of any
// Read whole, and by some seeds in parts.
Judgement judge_seed(uint64_t seed, const Document& document);
void run(uint64_t seed, Tally& tally, const std::string& format = "");

}  // namespace weir::drawn
