#include "control/tell/metrics/facts.h"

#include <algorithm>
#include <numeric>

namespace weir::control::metrics {

// ------------------------------------------------------------------------------------------------------------ tally

void Durations::add(double seconds) {
  const auto bound = std::lower_bound(kBounds_s.begin(), kBounds_s.end(), seconds);
  counts[static_cast<size_t>(bound - kBounds_s.begin())]++;
  sum_s += seconds;
}

uint64_t Durations::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

void Tally::add_reload(Cause cause, Outcome outcome, double seconds) {
  reloads[static_cast<size_t>(cause)][static_cast<size_t>(outcome)]++;
  whole_reloads.add(seconds);
}

void Tally::add_phase(const std::string& name, double seconds) {
  auto found = std::find_if(phases.begin(), phases.end(), [&](const auto& one) { return one.first == name; });
  if (found == phases.end()) found = phases.insert(phases.end(), {name, Durations()});
  found->second.add(seconds);
}

void Tally::take_refused(const std::vector<RefusedFeed>& refused) {
  std::map<std::string, int64_t> now;
  for (const RefusedFeed& feed : refused) {
    int64_t& since = now[feed.list];
    since = std::max(since, feed.since);
    const auto before = refused_since.find(feed.list);
    if (before != refused_since.end() && before->second >= feed.since) continue;
    refusals[feed.list]++;
  }
  refused_since = std::move(now);
}

}  // namespace weir::control::metrics
