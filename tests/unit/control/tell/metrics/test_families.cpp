// What answers become for Prometheus: names, types, labels, numbers; and what is left out.
#include <limits>
#include <set>

#include "control/tell/metrics/families.h"
#include "tests/catch.h"

using namespace weir::control;
using namespace weir::control::metrics;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

namespace {

constexpr const char* kTarget = "/run/weir/dataplane.sock";

Facts some_facts() {
  Facts facts;
  facts.now = 1000;
  facts.status.generation = {7, 42};
  facts.status.published_at = 900;
  facts.status.last_reload.ok = true;
  facts.status.limits = {{"lists", {2, 256}}, {"overlay_keys", {5, 0}}};
  TargetStatus status;
  status.socket = kTarget;
  status.connected = status.acknowledged = true;
  status.start_time = 800;
  facts.status.targets = {status};
  TargetMeasures target;
  target.stats.socket = kTarget;
  target.stats.fresh = true;
  target.stats.totals.packets = 100;
  target.stats.totals.bytes = 6400;
  target.stats.totals.dropped = 30;
  list_of(target.stats.lists, "c2").dropped = 30;
  WorkerTelemetry worker;
  worker.worker = 3;
  worker.tsc_hz = 1'000'000'000;
  worker.busy_cycles = 5000;
  worker.packets = 100;
  worker.sampled = 77;
  worker.stages = {{"lookup", {4000, 20}}};
  worker.burst_sizes.assign(65, 0);
  worker.burst_sizes[0] = 10;
  worker.burst_sizes[3] = 2;
  worker.burst_sizes[64] = 1;
  worker.histograms.latency_cycles = {{100, 4}, {150, 1}, {3'000'000'000, 1}};
  target.workers = {worker};
  PortTelemetry port;
  port.name = "eth0";
  port.rx_missed = 9;
  port.rx_errors = 2;
  target.ports = {port};
  facts.targets = {target};
  facts.traffic_taken = 40;
  facts.traffic_lost = 2;
  return facts;
}

const MetricFamily* family_of(const std::vector<MetricFamily>& all, const std::string& name) {
  for (const MetricFamily& family : all) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

// The one with these labels.
const ClientMetric& metric_of(const std::vector<MetricFamily>& all, const std::string& name,
                              const std::vector<ClientMetric::Label>& labels = {}) {
  const MetricFamily* family = family_of(all, name);
  INFO(name);
  REQUIRE(family != nullptr);
  for (const ClientMetric& metric : family->metric) {
    if (metric.label == labels) return metric;
  }
  FAIL("no such labels");
  return family->metric[0];
}

}  // namespace

TEST_CASE("every family is there once, well named, and no two of its metrics have the same labels") {
  const std::vector<MetricFamily> all = families(some_facts());
  std::set<std::string> names;
  for (const MetricFamily& family : all) {
    INFO(family.name);
    CHECK(names.insert(family.name).second);
    CHECK(family.name.starts_with("weir_"));
    CHECK(family.name.ends_with("_total") == (family.type == MetricType::Counter));
    CHECK_FALSE(family.help.empty());
    std::set<std::vector<ClientMetric::Label>> labels;
    for (const ClientMetric& metric : family.metric) CHECK(labels.insert(metric.label).second);
  }
}

TEST_CASE("every counter of targets and lists is a metric of its own") {
  const std::vector<MetricFamily> all = families(some_facts());
  CHECK(metric_of(all, "weir_packets_total", {{"target", kTarget}}).counter.value == 100);
  CHECK(metric_of(all, "weir_bytes_total", {{"target", kTarget}}).counter.value == 6400);
  CHECK(metric_of(all, "weir_dropped_packets_total", {{"target", kTarget}}).counter.value == 30);
  CHECK(metric_of(all, "weir_list_dropped_packets_total", {{"target", kTarget}, {"list", "c2"}}).counter.value == 30);
  CHECK(metric_of(all, "weir_port_rx_missed_packets_total", {{"target", kTarget}, {"port", "eth0"}}).counter.value ==
        9);
  CHECK(metric_of(all, "weir_port_rx_errors_total", {{"target", kTarget}, {"port", "eth0"}}).counter.value == 2);
  CHECK(metric_of(all, "weir_traffic_samples_total", {{"result", "taken"}}).counter.value == 40);
  CHECK(metric_of(all, "weir_traffic_samples_total", {{"result", "lost"}}).counter.value == 2);
  for (const TotalRow& row : totals_rows()) {
    const std::string name = row.name, kind = std::string(row.unit) == "bytes" ? "bytes" : "packets";
    CHECK(family_of(all, "weir_" + (name.ends_with(kind) ? name : name + "_" + kind) + "_total") != nullptr);
  }
}

TEST_CASE("workers: cycles, bursts, latencies") {
  const std::vector<MetricFamily> all = families(some_facts());
  const std::vector<ClientMetric::Label> worker = {{"target", kTarget}, {"worker", "3"}};
  CHECK(metric_of(all, "weir_worker_busy_cycles_total", worker).counter.value == 5000);
  CHECK(metric_of(all, "weir_worker_packets_total", worker).counter.value == 100);
  CHECK(family_of(all, "weir_worker_sampled_packets_total") == nullptr);  // it falls, too
  const auto stage =
      metric_of(all, "weir_worker_stage_packets_total", {{"target", kTarget}, {"worker", "3"}, {"stage", "lookup"}});
  CHECK(stage.counter.value == 20);
  const ClientMetric::Histogram bursts = metric_of(all, "weir_worker_burst_packets", worker).histogram;
  CHECK(bursts.sample_count == 13);
  CHECK(bursts.sample_sum == 2 * 3 + 64);
  REQUIRE(bursts.bucket.size() == 9);  // 0, 1, 2, 4, ... 64, and all
  CHECK(bursts.bucket[2].upper_bound == 2);
  CHECK(bursts.bucket[2].cumulative_count == 10);
  CHECK(bursts.bucket[3].cumulative_count == 12);
  CHECK(bursts.bucket[8].cumulative_count == 13);
  const ClientMetric::Histogram latency = metric_of(all, "weir_worker_latency_seconds", worker).histogram;
  CHECK(latency.sample_count == 6);
  CHECK(latency.bucket[0].upper_bound == 1e-7);
  CHECK(latency.bucket[0].cumulative_count == 4);
  CHECK(latency.bucket[1].cumulative_count == 5);
  CHECK(latency.bucket.back().cumulative_count == 6);
  CHECK(latency.bucket.back().upper_bound == std::numeric_limits<double>::infinity());
  CHECK(latency.bucket[latency.bucket.size() - 2].cumulative_count == 5);  // the last one took 3 s
}

TEST_CASE("a target that did not answer is down, and its counters are left out") {
  Facts facts = some_facts();
  facts.targets[0].stats.fresh = false;
  const std::vector<MetricFamily> all = families(facts);
  CHECK(metric_of(all, "weir_target_up", {{"target", kTarget}}).gauge.value == 0);
  for (const char* name :
       {"weir_packets_total", "weir_list_dropped_packets_total", "weir_worker_packets_total", "weir_port_up"}) {
    CHECK(family_of(all, name) == nullptr);
  }
}

TEST_CASE("before the first policy, what there is is told") {
  Facts facts;
  facts.status.starting = true;
  const std::vector<MetricFamily> all = families(facts);
  CHECK(metric_of(all, "weir_generation").gauge.value == 0);
  CHECK(metric_of(all, "weir_starting").gauge.value == 1);
  CHECK(family_of(all, "weir_generation_age_seconds") == nullptr);
  CHECK(family_of(all, "weir_last_reload_success") == nullptr);
}

TEST_CASE("a node of a fleet tells how it stands, and no other does") {
  Facts facts = some_facts();
  CHECK(family_of(families(facts), "weir_fleet_revision") == nullptr);
  facts.status.fleet = FleetStanding{"edge", "n1", "rest", 12, 8, 9, "refused", "why", "", 3};
  const std::vector<MetricFamily> all = families(facts);
  const std::pair<const char*, double> values[] = {
      {"weir_fleet_info", 1},     {"weir_fleet_followed", 1},        {"weir_fleet_turn", 12},
      {"weir_fleet_revision", 8}, {"weir_fleet_wanted_revision", 9}, {"weir_fleet_refused", 1},
      {"weir_fleet_entries", 3}};
  for (const auto& [name, value] : values) {
    INFO(name);
    const MetricFamily* family = family_of(all, name);
    REQUIRE(family != nullptr);
    CHECK(family->metric.at(0).gauge.value == value);
  }
  facts.status.fleet->etcd_error = "no answer";
  const std::vector<MetricFamily> unheard = families(facts);
  CHECK(family_of(unheard, "weir_fleet_followed")->metric.at(0).gauge.value == 0);
}

TEST_CASE("limits whose most is not known have none") {
  const std::vector<MetricFamily> all = families(some_facts());
  CHECK(metric_of(all, "weir_limit_used", {{"limit", "overlay_keys"}}).gauge.value == 5);
  REQUIRE(family_of(all, "weir_limit_max") != nullptr);
  CHECK(family_of(all, "weir_limit_max")->metric.size() == 1);
}

TEST_CASE("a feed of several files is told once, with the oldest of them; fetched ones by their server's answer") {
  Facts facts = some_facts();
  FeedDetails first, second, fetched;
  first.list = second.list = "many";
  first.entries = 10, second.entries = 5, first.bad = 1, second.bad = 2;
  first.taken_at = 500, second.taken_at = 700;
  second.state = "refused";
  fetched.list = "web";
  fetched.taken_at = 100;
  fetched.fetch = FetchDetails{};
  fetched.fetch->every_s = 60;
  fetched.fetch->fetched_at = 990;
  facts.feeds.feeds = {first, second, fetched};
  facts.tally.refusals["many"] = 3;
  const std::vector<MetricFamily> all = families(facts);
  const std::vector<ClientMetric::Label> many = {{"list", "many"}}, web = {{"list", "web"}};
  CHECK(metric_of(all, "weir_feed_entries", many).gauge.value == 15);
  CHECK(metric_of(all, "weir_feed_bad_lines", many).gauge.value == 3);
  CHECK(metric_of(all, "weir_feed_refused", many).gauge.value == 1);
  CHECK(metric_of(all, "weir_feed_refusals_total", many).counter.value == 3);
  CHECK(metric_of(all, "weir_feed_age_seconds", many).gauge.value == 500);
  CHECK(metric_of(all, "weir_feed_last_success_timestamp_seconds", web).gauge.value == 990);
  CHECK(metric_of(all, "weir_feed_fetch_interval_seconds", web).gauge.value == 60);
}

TEST_CASE("reloads are counted by cause and outcome, phases in a histogram, and a refusal once") {
  Facts facts = some_facts();
  Tally& tally = facts.tally;
  tally.add_reload(Cause::feeds, Outcome::failed, 0.02);
  tally.add_reload(Cause::feeds, Outcome::failed, 2000);
  tally.add_phase("read", 0.002);
  tally.add_phase("read", 0.003);
  tally.take_refused({{"a", "", "", "", 10}});
  tally.take_refused({{"a", "", "", "", 10}});
  tally.take_refused({{"a", "", "", "", 20}, {"b", "", "", "", 5}});
  tally.take_refused({});
  tally.take_refused({{"a", "", "", "", 30}});
  CHECK(tally.refusals["a"] == 3);
  CHECK(tally.refusals["b"] == 1);
  const std::vector<MetricFamily> all = families(facts);
  CHECK(metric_of(all, "weir_reloads_total", {{"cause", "feeds"}, {"outcome", "failed"}}).counter.value == 2);
  CHECK(metric_of(all, "weir_reloads_total", {{"cause", "asked"}, {"outcome", "published"}}).counter.value == 0);
  const ClientMetric::Histogram read = metric_of(all, "weir_reload_phase_seconds", {{"phase", "read"}}).histogram;
  CHECK(read.sample_count == 2);
  CHECK(read.bucket[0].cumulative_count == 0);
  CHECK(read.bucket[1].cumulative_count == 2);  // up to 3 ms, and that counts there
  const ClientMetric::Histogram whole = metric_of(all, "weir_reload_seconds").histogram;
  CHECK(whole.bucket.back().cumulative_count == 2);
  CHECK(whole.bucket[whole.bucket.size() - 2].cumulative_count == 1);
}

TEST_CASE("a label is one printable line, whatever a name holds") {
  Builder builder;
  builder.gauge("one", "help", {{"label", "a\x1b\xc2\x9b\n\xe2\x80\xae\xff"}}, 1);
  CHECK(builder.take()[0].metric[0].label[0].value == "a\\x1b\\u009b\\n\\u202e\\xff");
}
