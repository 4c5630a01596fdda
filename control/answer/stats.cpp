#include "control/answer/stats.h"

#include <cstring>

#include "control/answer/capture_json.h"

namespace weir::control {

namespace {

// A target that is busy with a publication answers after it; one that hangs must not hold the API for longer.
constexpr std::chrono::milliseconds kFreshWait{1000};

struct TotalRow {
  const char* name;
  uint64_t wire::Totals::*member;
};
constexpr TotalRow kTotals[] = {
    {"packets", &wire::Totals::packets},
    {"bytes", &wire::Totals::bytes},
    {"passed", &wire::Totals::passed},
    {"dropped", &wire::Totals::dropped},
    {"malformed", &wire::Totals::malformed},
    {"not_ip", &wire::Totals::not_ip},
    {"incomplete", &wire::Totals::incomplete},
    {"default_passed", &wire::Totals::default_passed},
    {"default_dropped", &wire::Totals::default_dropped},
    {"bypassed", &wire::Totals::bypassed},
    {"no_snapshot_passed", &wire::Totals::no_snapshot_passed},
    {"no_snapshot_dropped", &wire::Totals::no_snapshot_dropped},
    {"tx_packets", &wire::Totals::tx_packets},
    {"tx_lost", &wire::Totals::tx_lost},
    {"capture_lost", &wire::Totals::capture_lost},
    {"rx_missed", &wire::Totals::rx_missed},
};
static_assert(sizeof kTotals / sizeof kTotals[0] * sizeof(uint64_t) == sizeof(wire::Totals), "every counter has a row");

struct ListRow {
  const char* name;
  uint64_t wire::ListStats::*member;
};
constexpr ListRow kListCounters[] = {
    {"matched", &wire::ListStats::matched},
    {"dropped", &wire::ListStats::dropped},
    {"passed", &wire::ListStats::passed},
    {"would_drop", &wire::ListStats::would_drop},
    {"matched_bytes", &wire::ListStats::matched_bytes},
    {"dropped_bytes", &wire::ListStats::dropped_bytes},
    {"passed_bytes", &wire::ListStats::passed_bytes},
    {"would_drop_bytes", &wire::ListStats::would_drop_bytes},
};

Json totals_json(const wire::Totals& totals) {
  Json json = Json::object();
  for (const TotalRow& row : kTotals) json[row.name] = totals.*row.member;
  return json;
}

Json list_json(const wire::ListStats& list) {
  Json json = Json::object();
  for (const ListRow& row : kListCounters) json[row.name] = list.*row.member;
  return json;
}

// Lists by name, in the order in which they were first seen.
class ListSums {
 public:
  wire::ListStats& of(const std::string& name) {
    for (auto& [known, sums] : lists_) {
      if (known == name) return sums;
    }
    return lists_.emplace_back(name, wire::ListStats{}).second;
  }
  void add(const std::vector<wire::ListStats>& lists) {
    for (const wire::ListStats& list : lists) {
      wire::ListStats& sums = of(std::string(list.name, strnlen(list.name, sizeof list.name)));
      for (const ListRow& row : kListCounters) sums.*row.member += list.*row.member;
    }
  }
  Json json() const {
    Json json = Json::object();
    for (const auto& [name, sums] : lists_) json[name] = list_json(sums);
    return json;
  }

 private:
  std::vector<std::pair<std::string, wire::ListStats>> lists_;
};

}  // namespace

Json target_stats(const TargetState& state, bool fresh) {
  const wire::Stats known = state.stats.value_or(wire::Stats{});
  ListSums lists;
  lists.add(known.lists);
  Json json = {{"socket", state.socket},
               {"connected", state.connected},
               {"fresh", fresh},
               {"start_time", known.body.start_time_unix},
               {"taken_us", known.body.taken_us},
               {"generation", to_json(known.body.generation)}};
  json.update(totals_json(known.body.totals));
  json["lists"] = lists.json();
  return json;
}

Json stats(Daemon& daemon, const Json&) {
  const std::shared_ptr<const Running> running = daemon.running();
  wire::Totals sums = {};
  ListSums lists;
  for (const ListSummary& list : running->lists) lists.of(list.name);  // also those that nobody counted yet

  const Clock::time_point deadline = Clock::now() + kFreshWait;
  Json targets = Json::array();
  for (const auto& target : daemon.targets()) {
    const bool fresh = target->refresh_stats(deadline);
    const TargetState state = target->state();
    const wire::Stats known = state.stats.value_or(wire::Stats{});
    for (const TotalRow& row : kTotals) sums.*row.member += known.body.totals.*row.member;
    lists.add(known.lists);
    targets.push_back(target_stats(state, fresh));
  }
  Json json = totals_json(sums);
  json["generation"] = to_json(running->publication->generation);
  json["lists"] = lists.json();
  json["targets"] = std::move(targets);
  json["capture"] = to_json(daemon.capture());
  return json;
}

}  // namespace weir::control
