#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "control/tell/answer/list.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"

// Metrics are made of these facts: answers, and what controld counts of its own doings.
namespace weir::control::metrics {

// ------------------------------------------------------------------------------------------------------------ tally

// Counters of controld's own work since it started.

// How often something took how long.
struct Durations {
  static constexpr std::array<double, 13> kBounds_s = {0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1,
                                                       3,     10,    30,   100,  300, 1000};
  std::array<uint64_t, kBounds_s.size() + 1> counts = {};  // up to each bound, and past the last one
  double sum_s = 0;

  void add(double seconds);
  uint64_t count() const;
};

enum class Cause : uint8_t { start, asked, feeds, rollback };
constexpr std::array<const char*, 4> kCauseNames = {"start", "asked", "feeds", "rollback"};
// published, and acknowledged by every target; published, and somebody did not acknowledge, or a disk failed; nothing
// new was to be published; nothing was, for an error.
enum class Outcome : uint8_t { published, incomplete, unchanged, failed };
constexpr std::array<const char*, 4> kOutcomeNames = {"published", "incomplete", "unchanged", "failed"};

struct Tally {
  std::array<std::array<uint64_t, kOutcomeNames.size()>, kCauseNames.size()> reloads = {};
  std::vector<std::pair<std::string, Durations>> phases;  // in the order in which they were first seen
  Durations whole_reloads;
  std::array<uint64_t, 2> changes = {};          // made; failed
  std::map<std::string, uint64_t> refusals;      // of feeds, by list
  std::map<std::string, int64_t> refused_since;  // that are counted in these

  void add_reload(Cause cause, Outcome outcome, double seconds);
  void add_phase(const std::string& name, double seconds);
  void add_change(bool is_made) { changes[is_made ? 0 : 1]++; }
  // The feeds that are refused now: each refusal counts once, however often it is found again.
  void take_refused(const std::vector<RefusedFeed>& refused);
};

// ------------------------------------------------------------------------------------------------------------ facts

// All that metrics are made of: answers that there are anyhow. Before the first policy is compiled, status and tally.
struct Facts {
  double now = 0;         // Unix seconds
  double started_at = 0;  // controld, Unix seconds
  StatusAnswer status;
  std::vector<TargetMeasures> targets;  // asked just now; stats.fresh: they answered
  ListAnswer lists;
  FeedsAnswer feeds;
  ShapesAnswer shapes;
  Tally tally;
  uint64_t traffic_taken = 0, traffic_lost = 0;  // samples for `plan`
};

// In the text format of Prometheus.
constexpr const char* kTextType = "text/plain; version=0.0.4; charset=utf-8";
std::string metrics_text(const Facts& facts);

}  // namespace weir::control::metrics
