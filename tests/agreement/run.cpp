#include "tests/agreement/run.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/agreement/sequences.h"
#include "tests/agreement/updates.h"

namespace weir::agreement {

using Json = nlohmann::json;

void tell(const std::string& problem) {
  fmt::print(stderr, "agreement: {}\n", problem);
}

std::unique_ptr<XdpPlane> open_xdp(bool wanted) {
  if (!wanted) return nullptr;
  Result<std::unique_ptr<XdpPlane>> plane = XdpPlane::open();
  if (plane) return std::move(*plane);
  tell(plane.error());
  std::exit(2);
}

int run_sequences(const SequenceRun& run, bool with_xdp) {
  SequenceTotals totals;
  std::mutex mutex;
  std::atomic<uint64_t> next_seed = run.first_seed;
  auto told = std::chrono::steady_clock::now();
  const auto work = [&] {
    const std::unique_ptr<XdpPlane> xdp = open_xdp(with_xdp);
    for (;;) {
      const uint64_t seed = next_seed++;
      {
        const std::lock_guard lock(mutex);
        if (run.only_one ? seed != run.first_seed : totals.changes.all() >= run.changes) return;
      }
      SequenceTotals mine;
      const auto problem = run_sequence(seed, run.steps, xdp.get(), mine);
      const std::lock_guard lock(mutex);
      totals += mine;
      if (problem) tell(fmt::format("seed {}: {}", seed, *problem));
      const auto now = std::chrono::steady_clock::now();
      if (now - told < std::chrono::seconds(10)) continue;
      told = now;
      tell(fmt::format("{} of {} changes, {} policies, {} frames, {} disagreements", totals.changes.all(), run.changes,
                       totals.policies, totals.compared.packets, totals.disagreements));
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < run.n_threads; t++) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  const Json json = {{"policies", totals.policies},
                     {"steps", totals.steps},
                     {"changes", totals.changes.all()},
                     {"added", totals.changes.added},
                     {"deleted", totals.changes.deleted},
                     {"expired", totals.changes.expired},
                     {"fed", totals.changes.fed},
                     {"overlays", totals.overlays},
                     {"bases", totals.bases},
                     {"compactions", totals.compactions},
                     {"missed", totals.missed},
                     {"restarts", totals.restarts},
                     {"refused", totals.refused},
                     {"counters", totals.counters},
                     {"packets", totals.compared.packets},
                     {"hits", totals.compared.hits},
                     {"dropped", totals.compared.dropped},
                     {"by_xdp", totals.compared.by_xdp},
                     {"disagreements", totals.disagreements}};
  fmt::print("{}\n", json.dump());
  return totals.disagreements == 0 ? 0 : 1;
}

int run_versions(const std::vector<std::string>& files, bool with_xdp) {
  const std::unique_ptr<XdpPlane> changing = open_xdp(with_xdp), anew = open_xdp(with_xdp);
  UpdateTotals totals;
  if (const auto problem = run_updates(files, changing.get(), anew.get(), totals)) tell(*problem);
  const Json json = {{"versions", totals.versions},
                     {"changes", totals.changes},
                     {"entries", totals.entries},
                     {"overlays", totals.overlays},
                     {"bases", totals.bases},
                     {"overlay_keys", totals.overlay_keys},
                     {"packets", totals.compared.packets},
                     {"hits", totals.compared.hits},
                     {"dropped", totals.compared.dropped},
                     {"by_xdp", totals.compared.by_xdp},
                     {"disagreements", totals.disagreements}};
  fmt::print("{}\n", json.dump());
  return totals.disagreements == 0 ? 0 : 1;
}

}  // namespace weir::agreement
