#include "control/tell/answer/stats.h"

#include <iterator>

namespace weir::control {

namespace {

constexpr TotalRow kTotals[] = {
    {"packets", &wire::Totals::packets, "frames", "judged: passed + dropped"},
    {"bytes", &wire::Totals::bytes, "bytes", "of them, without FCS"},
    {"passed", &wire::Totals::passed, "frames", "that passed"},
    {"dropped", &wire::Totals::dropped, "frames", "that were dropped"},
    {"malformed", &wire::Totals::malformed, "frames", "whose headers are cut off or wrong"},
    {"not_ip", &wire::Totals::not_ip, "frames", "that are neither IPv4 nor IPv6"},
    {"incomplete", &wire::Totals::incomplete, "frames", "whose IPv6 extension headers were not walked to the end"},
    {"default_passed", &wire::Totals::default_passed, "frames", "of no list, passed by the default"},
    {"default_dropped", &wire::Totals::default_dropped, "frames", "of no list, dropped by the default"},
    {"bypassed", &wire::Totals::bypassed, "frames", "that passed because bypass was on"},
    {"no_snapshot_passed", &wire::Totals::no_snapshot_passed, "frames", "that passed before there was a snapshot"},
    {"no_snapshot_dropped", &wire::Totals::no_snapshot_dropped, "frames",
     "that were dropped before there was a snapshot"},
    {"tx_packets", &wire::Totals::tx_packets, "frames", "passed, and sent by a port"},
    {"tx_lost", &wire::Totals::tx_lost, "frames", "passed, but not taken by the output port"},
    {"capture_lost", &wire::Totals::capture_lost, "frames", "dropped, but not taken by the drop_port"},
    {"rx_missed", &wire::Totals::rx_missed, "frames", "that ports lost before a worker saw them"},
};
static_assert(std::size(kTotals) * sizeof(uint64_t) == sizeof(wire::Totals), "every counter has a row");

struct ListRow {
  const char* name;
  uint64_t wire::ListStats::*member;
  const char* unit;
  const char* meaning;
};
constexpr ListRow kListCounters[] = {
    {"matched", &wire::ListStats::matched, "frames", "that an entry of the list matches"},
    {"dropped", &wire::ListStats::dropped, "frames", "that the list dropped"},
    {"passed", &wire::ListStats::passed, "frames", "that the list let pass"},
    {"would_drop", &wire::ListStats::would_drop, "frames", "that the list would drop if it were enforced"},
    {"matched_bytes", &wire::ListStats::matched_bytes, "bytes", "of matched, without FCS"},
    {"dropped_bytes", &wire::ListStats::dropped_bytes, "bytes", "of dropped"},
    {"passed_bytes", &wire::ListStats::passed_bytes, "bytes", "of passed"},
    {"would_drop_bytes", &wire::ListStats::would_drop_bytes, "bytes", "of would_drop"},
    {"dropped_alone", &wire::ListStats::dropped_alone, "frames",
     "that it dropped and no other enforced drop list would have"},
    {"would_drop_alone", &wire::ListStats::would_drop_alone, "frames",
     "of would_drop that no enforced drop list drops"},
    {"dropped_alone_bytes", &wire::ListStats::dropped_alone_bytes, "bytes", "of dropped_alone"},
    {"would_drop_alone_bytes", &wire::ListStats::would_drop_alone_bytes, "bytes", "of would_drop_alone"},
};

}  // namespace

std::span<const TotalRow> totals_rows() {
  return kTotals;
}

void members(Fields& f, wire::Totals& totals) {
  for (const TotalRow& row : kTotals) f({row.name, row.unit, row.meaning}, totals.*row.member);
}

void members(Fields& f, wire::ListStats& list) {
  for (const ListRow& row : kListCounters) f({row.name, row.unit, row.meaning}, list.*row.member);
}

wire::ListStats& list_of(ListCounters& lists, const std::string& name) {
  for (auto& [known, counters] : lists) {
    if (known == name) return counters;
  }
  return lists.emplace_back(name, wire::ListStats{}).second;
}

void members(Fields& f, TargetStats& target) {
  f({"socket", "", "names the target"}, target.socket);
  f({"connected", "", "controld reaches it"}, target.connected);
  f({"fresh", "", "it told this just now; false: earlier"}, target.fresh);
  f({"start_time", "Unix seconds", "since when it counts; 0: never reached"}, target.start_time);
  f({"taken_us", "us", "of its monotonic clock, modulo 2^32, when it told this"}, target.taken_us);
  f.object({"generation", "", "that it enforces"}, target.generation, "generation");
  members(f, target.totals);
  f.by_name({"lists", "", "its lists; former ones as long as it counts them"}, target.lists, "list counters");
}

void members(Fields& f, StatsAnswer& answer) {
  members(f, answer.totals);
  f.object({"generation", "", "that controld runs"}, answer.generation, "generation");
  f.by_name({"lists", "", "sums over the targets; every configured list is there"}, answer.lists, "list counters");
  f.texts({"former", "", "names of those that the policy has no more"}, answer.former);
  f.array({"targets", "", "what each counted"}, answer.targets, "target counters");
  f.object({"capture", "", "as capture answers"}, answer.capture, "capture");
}

void add(wire::ListStats& sums, const wire::ListStats& counters) {
  for (const ListRow& row : kListCounters) sums.*row.member += counters.*row.member;
}

void add(StatsAnswer& answer, TargetStats target) {
  for (const TotalRow& row : kTotals) answer.totals.*row.member += target.totals.*row.member;
  for (const auto& [name, counters] : target.lists) add(list_of(answer.lists, name), counters);
  answer.targets.push_back(std::move(target));
}

}  // namespace weir::control
