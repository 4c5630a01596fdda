// Random feeds of every format, with a known truth, through the readers. One line of JSON: how many were right,
// refused, refused although they are plainly good, silently wrong (entries that nobody wants, or that are missing
// without a count), or counted too much; of each kind the seed of the first one.
#include <fmt/format.h>

#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/drawn/run.h"

namespace {

using namespace weir::drawn;

nlohmann::json to_json(const Tally& tally, uint64_t seed) {
  nlohmann::json all = {{"documents", tally.documents}, {"seed", seed}};
  for (size_t i = 0; i < kVerdicts; i++) all[kVerdictNames[i]] = tally.verdicts[i];
  for (const auto& [format, verdicts] : tally.formats) {
    for (size_t i = 0; i < kVerdicts; i++) all["formats"][format][kVerdictNames[i]] = verdicts[i];
  }
  for (size_t i = static_cast<size_t>(Verdict::false_refusal); i < kVerdicts; i++) {
    std::vector<std::pair<std::string, Kind>> kinds(tally.kinds[i].begin(), tally.kinds[i].end());
    std::sort(kinds.begin(), kinds.end(), [](const auto& a, const auto& b) { return a.second.n > b.second.n; });
    for (const auto& [name, kind] : kinds) {
      all["kinds"][kVerdictNames[i]].push_back(
          {{"kind", name}, {"n", kind.n}, {"seed", kind.first_seed}, {"why", kind.why}});
    }
  }
  return all;
}

int show(uint64_t seed, const std::string& format) {
  const Document document = document_of(seed, format);
  const Judgement judgement = judge_seed(seed, document);
  std::cout << to_text(document) << to_text(read(document, document.text.size() + 1)) << "--- "
            << kVerdictNames[static_cast<size_t>(judgement.verdict)] << ": " << judgement.kind << ": " << judgement.why
            << "\n";
  return judgement.verdict == Verdict::right || judgement.verdict == Verdict::refused ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t documents = 100'000, seed = 1, only = 0;
  std::string format;
  CLI::App app("Random feeds with a known truth, through the readers of all formats");
  app.add_option("--documents", documents, "how many (100000)");
  app.add_option("--seed", seed, "of the first one; the next has the next number (1)");
  app.add_option("--format", format, "documents of this format alone");
  app.add_option("--only", only, "the document of this seed: its text, its truth, and what was read");
  CLI11_PARSE(app, argc, argv);
  if (only != 0) return show(only, format);
  Tally tally;
  for (uint64_t i = 0; i < documents; i++) run(seed + i, tally, format);
  std::cout << to_json(tally, seed).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  return tally.of(Verdict::silent_wrong) + tally.of(Verdict::false_refusal) + tally.of(Verdict::wrong_count) == 0 ? 0
                                                                                                                  : 1;
}
