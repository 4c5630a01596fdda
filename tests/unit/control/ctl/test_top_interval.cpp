#include "control/answer/json/json.h"
#include "control/ctl/top_interval.h"
#include "control/ctl/top_text.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::ctl;

namespace {

wire::ListStats counts(uint64_t dropped) {
  wire::ListStats list = {};
  list.matched = list.dropped = dropped;
  return list;
}

// A worker that has judged so many bursts of 32 in `seconds`, and was busy half of them; a TSC of 1 GHz.
WorkerTelemetry worker(uint64_t bursts, uint64_t seconds) {
  const auto cost = [&](uint64_t cycles) { return wire::StageCost{cycles * bursts, 32 * bursts}; };
  WorkerTelemetry w;
  w.lcore = 1;
  w.queues = 1;
  w.idle_mode = "pause";
  w.sample_one_in = 1;
  w.tsc_hz = 1'000'000'000;
  w.taken_cycles = 7'000'000'000 + seconds * 1'000'000'000;
  w.total_cycles = seconds * 1'000'000'000;
  w.busy_cycles = seconds * 500'000'000;
  w.packets = 32 * bursts;
  w.bytes = 32 * 100 * bursts;
  w.passed = 24 * bursts;
  w.dropped = 8 * bursts;
  w.stages = {{"rx", cost(320)}, {"parse", cost(640)}, {"lookup", cost(32)}, {"verdict", cost(64)}, {"tx", cost(0)}};
  w.burst_sizes.assign(65, 0);
  w.burst_sizes[0] = 3 * bursts;
  w.burst_sizes[32] = bursts;
  w.histograms = {{{1000, bursts}, {9000, seconds}}, {{2000, 32 * bursts}}};
  return w;
}

PortTelemetry port(uint64_t bursts, uint64_t seconds) {
  PortTelemetry p;
  p.name = "net_null0";
  p.driver = "net_null";
  p.link_up = true;
  p.speed_mbps = 10000;
  p.taken_us = seconds * 2'000'000;
  p.rx_packets = 32 * bursts;
  p.rx_bytes = 3200 * bursts;
  return p;
}

TargetMeasures target(uint64_t bursts, uint64_t seconds) {
  TargetMeasures t;
  t.stats.socket = "/a";
  t.stats.connected = t.stats.fresh = true;
  t.stats.start_time = 5;
  t.stats.taken_us = static_cast<uint32_t>(4'294'000'000 + seconds * 1'000'000);  // modulo 2^32
  t.stats.generation = {1, 1};
  t.stats.totals.packets = 32 * bursts;
  t.stats.totals.bytes = 32 * 100 * bursts;
  t.stats.totals.passed = 24 * bursts;
  t.stats.totals.dropped = 8 * bursts;
  t.stats.totals.rx_missed = seconds;
  t.stats.lists = {{"few", counts(bursts)}, {"many", counts(7 * bursts)}};
  t.workers = {worker(bursts, seconds)};
  t.ports = {port(bursts, seconds)};
  return t;
}

TelemetryAnswer answer(std::vector<TargetMeasures> targets) {
  TelemetryAnswer all;
  all.targets = std::move(targets);
  return all;
}

TargetInterval only_target(const TargetMeasures& before, const TargetMeasures& after) {
  return interval_between(answer({before}), answer({after})).targets.at(0);
}

Approx about(double value) {
  return Approx(value).epsilon(1e-9);
}

}  // namespace

TEST_CASE("rates are differences over the target's own time") {
  // Two seconds, over the wrap of the time stamp's 2^32 microseconds.
  const TargetInterval t = only_target(target(1'000'000, 0), target(3'000'000, 2));
  CHECK(t.state == "measured");
  REQUIRE(t.measured);
  CHECK(t.measured->seconds == about(2));
  CHECK(t.measured->mpps == about(32));
  CHECK(t.measured->dropped_mpps == about(8));
  CHECK(t.measured->rx_missed == 2);
  CHECK(t.measured->lists.at(0).name == "many");  // the one that drops most
  CHECK(t.measured->lists.at(0).dropped_pps == about(7'000'000));
  CHECK(t.measured->ports.at(0).rx_mpps == about(16));  // its own time stamps: four seconds
}

TEST_CASE("shares, costs and percentiles are those of the interval") {
  const TargetInterval t = only_target(target(1'000'000, 0), target(3'000'000, 2));
  REQUIRE(t.measured);
  const WorkerInterval& w = t.measured->workers.at(0);
  CHECK(w.busy.value() == about(0.5));
  CHECK(w.mpps == about(32));
  CHECK(w.average_burst.value() == about(32));
  CHECK(w.empty_polls.value() == about(0.75));
  CHECK(w.cycles_per_packet.rx.value() == about(10));
  CHECK(w.cycles_per_packet.total.value() == about(33));
  CHECK(w.latency_us.p50.value() == about(2));
  CHECK(w.pass_us.p999.value() == about(1));
  CHECK(w.pass_us.max.value() == about(9));  // new in this interval
  CHECK(w.histograms.pass_cycles == std::vector<Bucket>{{1000, 2'000'000}, {9000, 2}});
}

TEST_CASE("what did not happen has no cost") {
  const TargetInterval t = only_target(target(1000, 1), target(1000, 2));
  REQUIRE(t.measured);
  const WorkerInterval& w = t.measured->workers.at(0);
  CHECK(w.mpps == 0);
  CHECK_FALSE(w.average_burst);
  CHECK_FALSE(w.cycles_per_packet.rx);
  CHECK_FALSE(w.cycles_per_packet.total);
  CHECK_FALSE(w.latency_us.p50);
  // In JSON such a value is null.
  CHECK(write_json(t).line().find("\"average_burst\":null") != std::string::npos);
}

TEST_CASE("rates have three digits and a unit") {
  const std::pair<double, const char*> rows[] = {
      {0, "0"},           {0.4, "0.4"},       {9.94, "9.9"},      {98, "98"},          {999.4, "999"},
      {999.6, "1.00 k"},  {12'345, "12.3 k"}, {123'456, "123 k"}, {9.996e6, "10.0 M"}, {1.5e9, "1.50 G"},
      {2.5e15, "2500 T"},
  };
  for (const auto& [value, text] : rows) CHECK(scaled(value) == text);
}

TEST_CASE("a screen of 80 columns is enough, and shows no list of former policies") {
  TargetMeasures before = target(1'000'000, 0), after = target(900'000'000'000, 2);
  for (TargetMeasures* t : {&before, &after}) {
    t->stats.lists.emplace_back(std::string(63, 'x'), counts(t == &before ? 0 : 800'000'000'000));
    t->stats.lists.emplace_back("of-the-past", counts(1));
    t->ports[0].name = "net_af_packet_with_a_long_name";
    t->ports[0].rx_missed = t == &before ? 0 : 123'456'789;
    t->workers[0].lcore = 127;
    t->workers[0].worker = 127;
  }
  TelemetryAnswer now = answer({after});
  now.former = {"of-the-past"};
  const Interval interval = interval_between(answer({before}), now);
  const std::string text = text_of(interval, Width::terminal), wide = text_of(interval, Width::wide);
  INFO(text);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    CHECK(end - begin <= 80);
    begin = end + 1;
  }
  CHECK(text.find("of-the-past") == std::string::npos);
  CHECK(text.find("Tpps") != std::string::npos);
  for (const char* word :
       {"lookup", "p99.9", "no mbuf", "net_af_packet_with_a_long_name", "1 list of former policies"}) {
    CHECK(text.find(word) == std::string::npos);
    CHECK(wide.find(word) != std::string::npos);
  }
}

TEST_CASE("a target without an interval says why") {
  const TargetMeasures here = target(1000, 1);
  TargetMeasures away = here, silent = here, restarted = target(10, 0), again = target(5000, 2);
  away.stats.connected = false;
  away.stats.fresh = false;
  silent.stats.fresh = false;
  again.stats.start_time = 6;
  CHECK(only_target(here, away).state == "away");
  CHECK(only_target(here, silent).state == "silent");
  CHECK(only_target(away, here).state == "new");
  CHECK(only_target(here, restarted).state == "restarted");
  CHECK(only_target(here, again).state == "restarted");
  CHECK(interval_between(answer({}), answer({here})).targets.at(0).state == "new");
}
