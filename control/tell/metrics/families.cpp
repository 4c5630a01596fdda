#include "control/tell/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/printable.h"
#include "control/base/json/fields.h"
#include "filter/format/snapshot.h"

namespace weir::control::metrics {

// ---------------------------------------------------------------------------------------------------------- builder

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

ClientMetric& Builder::metric(std::string_view name, const char* help, MetricType type, Labels&& labels) {
  const std::string whole = "weir_" + std::string(name);
  // The newest ones first: most values belong to the family of the one before, or to one near it.
  auto found =
      std::find_if(families_.rbegin(), families_.rend(), [&](const MetricFamily& one) { return one.name == whole; });
  MetricFamily& family =
      found != families_.rend() ? *found : families_.emplace_back(MetricFamily{whole, help, type, {}});
  ClientMetric& made = family.metric.emplace_back();
  made.label = std::move(labels);
  for (Label& label : made.label) label.value = printable(label.value);
  return made;
}

void Builder::counter(std::string_view name, const char* help, Labels labels, double value) {
  metric(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
}

void Builder::gauge(std::string_view name, const char* help, Labels labels, double value) {
  metric(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
}

void Builder::histogram(std::string_view name, const char* help, Labels labels, const Steps& steps) {
  ClientMetric::Histogram& histogram = metric(name, help, MetricType::Histogram, std::move(labels)).histogram;
  histogram.sample_count = steps.count;
  histogram.sample_sum = steps.sum;
  for (const auto& [bound, count] : steps.up_to) histogram.bucket.push_back({count, bound});
  histogram.bucket.push_back({steps.count, std::numeric_limits<double>::infinity()});
}

// --------------------------------------------------------------------------------------------------------- families

namespace {

struct Number {
  Member member;
  double value;
};

// The numbers of a description (control/base/json/fields.h) themselves, nothing of what is inside its members: a
// counter that is added there is a metric, too.
template <class Answer>
std::vector<Number> numbers_of(const Answer& answer);

// Visits for numbers_of().
class Numbers : public Fields {
 public:
  using Fields::numbers;
  std::vector<Number> found;

  bool reading() const override { return false; }
  void or_null(const Member&, std::optional<double>&) override {}
  void hex(const Member&, uint64_t&) override {}
  void texts(const Member&, std::vector<std::string>&) override {}
  void numbers(const Member&, std::vector<uint64_t>&) override {}
  void buckets(const Member&, std::vector<Bucket>&) override {}

 protected:
  void flag(const Member&, bool&) override {}
  void text(const Member&, std::string&) override {}
  void real(const Member& member, double& value) override { found.push_back({member, value}); }
  void whole(const Member& member, uint64_t& value, uint64_t) override {
    found.push_back({member, static_cast<double>(value)});
  }
  void whole(const Member& member, int64_t& value) override { found.push_back({member, static_cast<double>(value)}); }
  size_t begin(const Member&, Container, size_t, const char*) override { return 0; }
  void begin_element(size_t) override {}
  void begin_named(size_t, std::string&) override {}
  void named_real(size_t, std::string&, double&) override {}
  void end() override {}
  bool begin_optional(const char*, bool) override { return false; }
  void end_optional() override {}
};

template <class Answer>
std::vector<Number> numbers_of(const Answer& answer) {
  Answer copy = answer;
  Numbers visitor;
  members(visitor, copy);
  return std::move(visitor.found);
}

double of(bool value) {
  return value ? 1 : 0;
}

// Of a member that counts frames or bytes; empty: it is none of these.
std::string counter_name(const char* prefix, const Member& member) {
  const std::string name = member.name, unit = member.unit;
  if (unit != "frames" && unit != "bytes") return "";
  const std::string what = unit == "frames" ? "packets" : "bytes";
  const bool says_what = name.ends_with(what) || name.ends_with("_errors");
  return prefix + (says_what ? name : name + "_" + what) + "_total";
}

template <class Answer>
void add_counters(Builder& to, const char* prefix, const Answer& answer, const Labels& labels) {
  for (const Number& number : numbers_of(answer)) {
    const std::string name = counter_name(prefix, number.member);
    if (name.empty()) continue;
    const std::string help = std::string(number.member.unit) + " " + number.member.meaning;
    to.counter(name, help.c_str(), labels, number.value);
  }
}

Steps steps_of(const Durations& durations) {
  Steps steps{{}, durations.count(), durations.sum_s};
  uint64_t count = 0;
  for (size_t i = 0; i < Durations::kBounds_s.size(); i++) {
    count += durations.counts[i];
    steps.up_to.emplace_back(Durations::kBounds_s[i], count);
  }
  return steps;
}

// Of frames a poll: their numbers are known exactly.
Steps steps_of_bursts(const std::vector<uint64_t>& sizes) {
  Steps steps;
  for (size_t n = 0; n < sizes.size(); n++) {
    steps.count += sizes[n];
    steps.sum += static_cast<double>(n) * static_cast<double>(sizes[n]);
    if ((n & (n - 1)) == 0) steps.up_to.emplace_back(static_cast<double>(n), steps.count);  // 0, 1, 2, 4, ... 64
  }
  return steps;
}

// Of cycles, in buckets of 1.6 %: a value counts where the upper end of its bucket lies.
Steps steps_of_cycles(const std::vector<Bucket>& buckets, double tsc_hz) {
  constexpr double kBounds_s[] = {1e-7, 2e-7, 5e-7, 1e-6, 2e-6, 5e-6, 1e-5, 2e-5,
                                  5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 0.1,  1};
  Steps steps;
  size_t next = 0;
  for (const double bound : kBounds_s) {
    for (; next < buckets.size() && static_cast<double>(buckets[next].upper) <= bound * tsc_hz; next++) {
      steps.count += buckets[next].count;
    }
    steps.up_to.emplace_back(bound, steps.count);
  }
  for (; next < buckets.size(); next++) steps.count += buckets[next].count;
  for (const Bucket& bucket : buckets) {
    steps.sum += static_cast<double>(bucket.upper) * static_cast<double>(bucket.count) / tsc_hz;
  }
  return steps;
}

void add_controld(Builder& to, const Facts& facts) {
  const StatusAnswer& status = facts.status;
  to.gauge("build_info", "1; the version of controld is a label", {{"version", status.version}}, 1);
  to.gauge("controld_start_time_seconds", "when controld started, in Unix seconds", {}, facts.started_at);
  to.gauge("controld_resident_memory_bytes", "memory of controld that is resident now", {},
           static_cast<double>(status.memory.rss_bytes));
  to.gauge("controld_peak_memory_bytes", "memory of controld that was resident at most, so far", {},
           static_cast<double>(status.memory.peak_bytes));
  to.gauge("starting", "1 while the first policy is being compiled", {}, of(status.starting));
  to.gauge("bypass", "1 while bypass is on: everything passes", {}, of(status.bypass));
  to.gauge("durable", "0: what runs, or bypass, would not outlive a restart of controld", {},
           of(status.disk_error.empty()));
  for (const auto& [name, limit] : status.limits) {
    to.gauge("limit_used", "how much of a limit is used", {{"limit", name}}, static_cast<double>(limit.used));
    if (limit.max == 0) continue;  // not known
    to.gauge("limit_max", "how much of it there may be", {{"limit", name}}, static_cast<double>(limit.max));
  }
  const CaptureCounts& capture = status.capture.counts;
  to.gauge("capture_on", "1 while samples of what is dropped are written", {}, of(status.capture.on));
  const std::pair<const char*, uint64_t> results[] = {{"written", capture.written},
                                                      {"filtered", capture.filtered},
                                                      {"limited", capture.limited},
                                                      {"logged", capture.logged},
                                                      {"lost", capture.lost}};
  for (const auto& [result, count] : results) {
    to.counter("capture_samples_total", "samples of what is dropped, by what became of them", {{"result", result}},
               static_cast<double>(count));
  }
  to.gauge("capture_waiting_samples", "samples that nothing has become of yet", {},
           static_cast<double>(capture.waiting));
  const std::pair<const char*, uint64_t> traffic[] = {{"taken", facts.traffic_taken}, {"lost", facts.traffic_lost}};
  for (const auto& [result, count] : traffic) {
    to.counter("traffic_samples_total", "samples of all traffic, for `plan`, by what became of them",
               {{"result", result}}, static_cast<double>(count));
  }
}

void add_fleet(Builder& to, const FleetStanding& fleet) {
  to.gauge("fleet_info", "1; the fleet, the node and its group are labels",
           {{"fleet", fleet.name}, {"node", fleet.node}, {"group", fleet.group}}, 1);
  to.gauge("fleet_followed", "0: etcd is not heard, or tells what this node does not follow: what is enforced stays",
           {}, of(fleet.etcd_error.empty()));
  to.gauge("fleet_turn", "turn of the fleet's head that this node follows", {}, static_cast<double>(fleet.turn));
  to.gauge("fleet_revision", "revision of the fleet that is enforced; 0: none", {},
           static_cast<double>(fleet.revision));
  to.gauge("fleet_wanted_revision", "revision that the node's group is to enforce", {},
           static_cast<double>(fleet.wanted));
  to.gauge("fleet_refused", "1: the wanted revision is refused, and what runs stays", {}, of(fleet.state == "refused"));
  to.gauge("fleet_entries", "entries that were added to the fleet, and are enforced here", {},
           static_cast<double>(fleet.entries));
}

void add_reloads(Builder& to, const Facts& facts) {
  const Tally& tally = facts.tally;
  for (size_t cause = 0; cause < kCauseNames.size(); cause++) {
    for (size_t outcome = 0; outcome < kOutcomeNames.size(); outcome++) {
      to.counter("reloads_total", "reloads, by what caused them and how they ended",
                 {{"cause", kCauseNames[cause]}, {"outcome", kOutcomeNames[outcome]}},
                 static_cast<double>(tally.reloads[cause][outcome]));
    }
  }
  for (const auto& [phase, durations] : tally.phases) {
    to.histogram("reload_phase_seconds", "how long the phases of reloads took", {{"phase", phase}},
                 steps_of(durations));
  }
  to.histogram("reload_seconds", "how long whole reloads took, until the last target acknowledged", {},
               steps_of(tally.whole_reloads));
  for (const size_t outcome : {0, 1}) {
    to.counter("changes_total", "changes of lists by add, del and flush",
               {{"outcome", outcome == 0 ? "made" : "failed"}}, static_cast<double>(tally.changes[outcome]));
  }
  const StatusAnswer& status = facts.status;
  if (status.starting) return;
  to.gauge("last_reload_success", "1: the last reload did all that it was to do", {}, of(status.last_reload.ok));
  to.gauge("last_reload_timestamp_seconds", "when the last reload began, in Unix seconds", {},
           static_cast<double>(status.last_reload.at));
  to.gauge("last_reload_errors", "errors that the last reload found in the policy", {},
           static_cast<double>(status.last_reload.diagnostics.errors()));
  to.gauge("last_reload_warnings", "warnings about the policy in the last reload", {},
           static_cast<double>(status.last_reload.diagnostics.warnings()));
}

void add_generation(Builder& to, const Facts& facts) {
  const StatusAnswer& status = facts.status;
  to.gauge("generation", "number of the generation that controld runs; 0: none", {},
           static_cast<double>(status.generation.number));
  if (status.generation.number == 0) return;
  to.gauge("generation_published_timestamp_seconds", "when it was published, in Unix seconds", {},
           static_cast<double>(status.published_at));
  to.gauge("generation_age_seconds", "how long ago that was", {},
           std::max(0.0, facts.now - static_cast<double>(status.published_at)));
  to.gauge("from_last_good", "1: the policy was bad at the start, and what ran before runs", {},
           of(status.from_last_good));
  to.gauge("entries", "entries of all lists", {}, static_cast<double>(status.entries));
  to.gauge("snapshot_bytes", "size of the snapshot, its overlay included", {},
           static_cast<double>(facts.shapes.snapshot_bytes));
  for (const auto& [name, limit] : status.limits) {
    if (name == "overlay_keys") to.gauge("overlay_keys", "keys of the overlay", {}, static_cast<double>(limit.used));
  }
}

void add_shapes(Builder& to, const ShapesAnswer& shapes) {
  for (const ShapeReport& shape : shapes.shapes) {
    const Labels labels = {{"shape", shape.name}};
    to.gauge("shape_keys", "keys of this shape in the snapshot", labels, static_cast<double>(shape.shape.n_keys));
    to.gauge("shape_filter_bytes", "size of its filter", labels, static_cast<double>(shape.shape.filter.size_bytes));
    to.gauge("shape_exact_bytes", "size of its exact stage", labels, static_cast<double>(exact_bytes_of(shape)));
    to.gauge("shape_expected_false_positive_ratio", "share of keys of nobody that its filter should let through",
             labels, shape.expected_fpr);
    if (!shape.measured_fpr) continue;
    to.gauge("shape_measured_false_positive_ratio",
             "share of random keys of nobody that it let through before publication", labels, *shape.measured_fpr);
  }
  for (const FilterRate& rate : shapes.false_positives) {
    const Labels labels = {{"target", rate.target}, {"shape", rate.shape}, {"part", rate.overlay ? "overlay" : "base"}};
    const auto gauge = [&](const char* name, const char* help, std::optional<double> value) {
      if (value) to.gauge(name, help, labels, *value);
    };
    to.counter("filter_asked_keys_total", "keys that the filter was asked for", labels,
               static_cast<double>(rate.asked));
    to.counter("filter_let_through_keys_total", "of these, that it let through", labels,
               static_cast<double>(rate.let_through));
    to.counter("filter_found_keys_total", "of these, that are on a list", labels, static_cast<double>(rate.found));
    gauge("filter_sampled_keys", "different keys of nobody, sampled of late", static_cast<double>(rate.keys));
    gauge("filter_false_positive_ratio", "share of these that the filter lets through", rate.rate);
    gauge("filter_false_positive_ratio_low", "where its 95 % interval begins", rate.low);
    gauge("filter_false_positive_ratio_high", "where it ends", rate.high);
    gauge("filter_predicted_false_positive_ratio", "what it should be, as the filter's bits say", rate.predicted);
    gauge("filter_false_positives_outside", "1: it is not what is predicted", is_outside(rate) ? 1.0 : 0.0);
  }
  for (const GateReport& gate : shapes.gates) {
    if (gate.is_of_xdp) continue;
    const Labels labels = {{"family", std::to_string(gate.family)},
                           {"side", gate.side == WEIR_SIDE_SOURCE ? "src" : "dst"}};
    to.gauge("gate_expected_survivor_ratio", "share of random addresses that a gate should let through to the filter",
             labels, gate.expected_share);
    if (!gate.measured_share) continue;
    to.gauge("gate_measured_survivor_ratio", "share of random addresses that it let through before publication", labels,
             *gate.measured_share);
  }
}

// What the files of one list say together.
struct Feed {
  uint64_t entries = 0, lines = 0, bad = 0, skipped = 0;
  bool is_refused = false;
  int64_t taken_at = 0;  // the oldest of them
  const FetchDetails* fetch = nullptr;
};

void add_feeds(Builder& to, const Facts& facts) {
  std::map<std::string, Feed> lists;
  for (const FeedDetails& file : facts.feeds.feeds) {
    Feed& feed = lists[file.list];
    feed.entries += file.entries;
    feed.lines += file.lines;
    feed.bad += file.bad;
    feed.skipped += file.skipped;
    feed.is_refused = feed.is_refused || file.state == "refused";
    if (file.taken_at != 0 && (feed.taken_at == 0 || file.taken_at < feed.taken_at)) feed.taken_at = file.taken_at;
    if (file.fetch) feed.fetch = &*file.fetch;
  }
  for (const auto& [list, feed] : lists) {
    const Labels labels = {{"list", list}};
    to.gauge("feed_entries", "entries of the feed", labels, static_cast<double>(feed.entries));
    to.gauge("feed_lines", "lines of the feed", labels, static_cast<double>(feed.lines));
    to.gauge("feed_bad_lines", "lines that are no entries, and were left out", labels, static_cast<double>(feed.bad));
    to.gauge("feed_skipped_lines", "lines that mean something else than an address, and were left out", labels,
             static_cast<double>(feed.skipped));
    to.gauge("feed_refused", "1: it is not taken, and the list keeps its last good content", labels,
             of(feed.is_refused));
    const auto refusals = facts.tally.refusals.find(list);
    to.counter("feed_refusals_total", "how often it was refused, by a guard or because it cannot be read", labels,
               refusals == facts.tally.refusals.end() ? 0 : static_cast<double>(refusals->second));
    const int64_t success = feed.fetch != nullptr ? feed.fetch->fetched_at : feed.taken_at;
    if (feed.taken_at != 0) {
      to.gauge("feed_age_seconds", "how long ago its content was taken", labels,
               std::max(0.0, facts.now - static_cast<double>(feed.taken_at)));
    }
    if (success != 0) {
      to.gauge("feed_last_success_timestamp_seconds",
               "when it was last had: by its server, or for a file when its content was taken; in Unix seconds", labels,
               static_cast<double>(success));
    }
    if (feed.fetch == nullptr) continue;
    to.gauge("feed_fetch_interval_seconds", "how often it is asked for", labels,
             static_cast<double>(feed.fetch->every_s));
    to.gauge("feed_fetch_failures", "attempts that failed, in a row", labels,
             static_cast<double>(feed.fetch->failures));
    to.gauge("feed_fetched_bytes", "size of what was fetched last", labels, static_cast<double>(feed.fetch->bytes));
  }
}

void add_lists(Builder& to, const ListAnswer& lists) {
  for (const ListDetails& list : lists.lists) {
    to.gauge("list_info", "1; what the list does is told by labels",
             {{"list", list.name}, {"action", list.action}, {"mode", list.mode}}, 1);
    to.gauge("list_entries", "entries of the list", {{"list", list.name}}, static_cast<double>(list.entries));
  }
}

void add_worker(Builder& to, const std::string& target, const WorkerTelemetry& worker) {
  const Labels labels = {{"target", target}, {"worker", std::to_string(worker.worker)}};
  const auto with = [&](const char* name, const char* value) {
    Labels more = labels;
    more.push_back({name, value});
    return more;
  };
  for (const Number& number : numbers_of(worker)) {
    const std::string name = counter_name("worker_", number.member);
    if (name.empty() || number.member.name == std::string("sampled")) continue;  // which falls, too
    to.counter(name, (std::string(number.member.unit) + " " + number.member.meaning).c_str(), labels, number.value);
  }
  to.counter("worker_cycles_total", "cycles of the time stamp counter since it began to poll", labels,
             static_cast<double>(worker.total_cycles));
  to.counter("worker_busy_cycles_total", "of these, in passes that had frames; divided by packets: cycles a packet",
             labels, static_cast<double>(worker.busy_cycles));
  to.gauge("worker_tsc_hertz", "frequency of the time stamp counter", labels, static_cast<double>(worker.tsc_hz));
  to.counter("worker_rests_total", "times it paused or slept", labels, static_cast<double>(worker.rests));
  to.gauge("worker_queues", "queues that it polls", labels, worker.queues);
  for (const auto& [stage, cost] : worker.stages) {
    to.counter("worker_stage_cycles_total", "cycles of a stage, in the passes that are timed",
               with("stage", stage.c_str()), static_cast<double>(cost.cycles));
    to.counter("worker_stage_packets_total",
               "frames in a stage, in the passes that are timed; of lookup: those that a gate let through",
               with("stage", stage.c_str()), static_cast<double>(cost.packets));
  }
  to.histogram("worker_burst_packets", "frames that a poll of a queue gave", labels,
               steps_of_bursts(worker.burst_sizes));
  if (worker.tsc_hz == 0) return;
  const auto hz = static_cast<double>(worker.tsc_hz);
  to.histogram("worker_latency_seconds", "from rx to tx, of frames in the passes that are timed", labels,
               steps_of_cycles(worker.histograms.latency_cycles, hz));
  to.histogram("worker_pass_seconds", "of a pass over all queues that had frames, of those that are timed", labels,
               steps_of_cycles(worker.histograms.pass_cycles, hz));
}

void add_port(Builder& to, const std::string& target, const PortTelemetry& port) {
  const Labels labels = {{"target", target}, {"port", port.name}};
  to.gauge("port_up", "1: its link is up; of XDP: it is attached", labels, of(port.link_up));
  if (port.speed_mbps != 0)
    to.gauge("port_speed_bytes", "bytes a second that its link carries", labels, port.speed_mbps * 125'000.0);
  add_counters(to, "port_", port, labels);
}

void add_target_state(Builder& to, const TargetStatus& target, bool is_fresh) {
  const Labels labels = {{"target", target.socket}};
  to.gauge("target_up", "1: controld reaches it, and it answered just now", labels, of(target.connected && is_fresh));
  to.gauge("target_acknowledged", "1: it enforces the generation that runs", labels, of(target.acknowledged));
  if (target.start_time == 0) return;  // never reached
  to.gauge("target_generation", "number of the generation that it enforces; 0: none", labels,
           static_cast<double>(target.generation.number));
  to.gauge("target_bypass", "1: everything passes there", labels, of(target.bypass));
  to.gauge("target_durable", "0: what it enforces, or bypass, would not outlive a restart of it", labels,
           of(target.durable));
  to.gauge("target_start_time_seconds", "when it started, in Unix seconds", labels,
           static_cast<double>(target.start_time));
  to.gauge("target_workers", "its workers", labels, target.workers);
  to.gauge("target_snapshot_bytes", "size of what it enforces", labels, static_cast<double>(target.snapshot_bytes));
  to.gauge("target_snapshot_limit_bytes", "size that it has room for", labels,
           static_cast<double>(target.snapshot_limit_bytes));
  to.gauge("target_huge_pages", "1: what it enforces lies in huge pages", labels, of(target.huge_pages));
}

void add_targets(Builder& to, const Facts& facts) {
  for (const TargetStatus& target : facts.status.targets) {
    const auto is_it = [&](const TargetMeasures& one) { return one.stats.socket == target.socket; };
    const auto measures = std::find_if(facts.targets.begin(), facts.targets.end(), is_it);
    add_target_state(to, target, measures != facts.targets.end() && measures->stats.fresh);
  }
  for (const TargetMeasures& target : facts.targets) {
    if (!target.stats.fresh) continue;
    const std::string& name = target.stats.socket;
    add_counters(to, "", target.stats.totals, {{"target", name}});
    for (const auto& [list, counters] : target.stats.lists) {
      add_counters(to, "list_", counters, {{"target", name}, {"list", list}});
    }
    for (const WorkerTelemetry& worker : target.workers) add_worker(to, name, worker);
    for (const PortTelemetry& port : target.ports) add_port(to, name, port);
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> families(const Facts& facts) {
  Builder to;
  add_controld(to, facts);
  if (facts.status.fleet) add_fleet(to, *facts.status.fleet);
  add_reloads(to, facts);
  add_generation(to, facts);
  add_shapes(to, facts.shapes);
  add_lists(to, facts.lists);
  add_feeds(to, facts);
  add_targets(to, facts);
  return to.take();
}

std::string metrics_text(const Facts& facts) {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, families(facts));
  return text.str();
}

}  // namespace weir::control::metrics
