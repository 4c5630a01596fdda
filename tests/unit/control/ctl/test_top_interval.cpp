#include "control/base/json/json.h"
#include "control/ctl/top_interval.h"
#include "control/ctl/top_text.h"
#include "control/tell/answer/text.h"
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

namespace {

QueueTelemetry queue(uint32_t port, uint32_t number, uint64_t packets) {
  return {port, number, packets};
}

// Two answers, of which the second has `added` more frames of each queue: [worker][queue]. A worker's queues are those
// of one port each.
TargetInterval with_queues(const std::vector<std::vector<uint64_t>>& added) {
  TargetMeasures before = target(1'000'000, 0), after = target(3'000'000, 2);
  before.workers.clear();
  after.workers.clear();
  for (uint32_t id = 0; id < added.size(); id++) {
    WorkerTelemetry was = worker(1'000'000, 0), now = worker(3'000'000, 2);
    was.worker = now.worker = id;
    for (uint32_t i = 0; i < added[id].size(); i++) {
      was.queue_packets.push_back(queue(i, id, 5'000'000));
      now.queue_packets.push_back(queue(i, id, 5'000'000 + added[id][i]));
    }
    before.workers.push_back(was);
    after.workers.push_back(now);
  }
  return only_target(before, after);
}

std::string text_with_queues(const std::vector<std::vector<uint64_t>>& added) {
  Interval interval;
  interval.targets = {with_queues(added)};
  return text_of(interval, Width::terminal);
}

WorkerTelemetry with_sources(double sampled, std::vector<SourceTelemetry> sources) {
  WorkerTelemetry w = worker(3'000'000, 2);
  w.sampled = sampled;
  w.sources = std::move(sources);
  return w;
}

}  // namespace

TEST_CASE("a queue has its share of what the queues of its worker gave in the interval") {
  const TargetInterval t = with_queues({{870'000, 130'000}, {0, 0}});
  REQUIRE(t.measured);
  const std::vector<QueueInterval>& first = t.measured->workers.at(0).queue_packets;
  REQUIRE(first.size() == 2);
  CHECK(first[0].packets == 870'000);
  CHECK(first[0].share.value() == about(0.87));
  CHECK(first[1].port == 1);
  CHECK(first[1].share.value() == about(0.13));
  CHECK_FALSE(t.measured->workers.at(1).queue_packets.at(0).share);
}

TEST_CASE("a queue that gets most is named, and no other") {
  const auto says = [](const std::vector<std::vector<uint64_t>>& added) {
    const std::string text = text_with_queues(added);
    std::string said;
    for (size_t at = 0; (at = text.find("worker ", at)) != std::string::npos; at++) {
      const size_t end = text.find('\n', at);
      const std::string line = text.substr(at, end - at);
      if (line.find("gets") != std::string::npos) said += line + ";";
    }
    return said;
  };
  CHECK(says({{870'000, 130'000}, {870'000, 130'000}}) ==
        "worker 0: queue 0:0 gets 87 % of its packets;worker 1: queue 0:1 gets 87 % of its packets;");
  // Between workers; the same queue is not named again as its worker's.
  CHECK(says({{100'000}, {900'000}}) == "worker 1: queue 0:1 gets 90 % of all packets;");
  CHECK(says({{100'000, 0}, {50'000, 850'000}}) ==
        "worker 1: queue 1:1 gets 85 % of all packets;worker 0: queue 0:0 gets 100 % of its packets;");
  CHECK(says({{100'000, 100'000}, {100'000, 100'000}}).empty());
  CHECK(says({{740'000, 260'000}, {740'000, 260'000}}).empty());
  CHECK(says({{1'000'000}}).empty());         // one queue gets all there is
  CHECK(says({{400, 1}, {400, 1}}).empty());  // hardly any traffic
}

TEST_CASE("a source has its share of the frames of all workers") {
  TargetMeasures before = target(1'000'000, 0), after = target(3'000'000, 2);
  before.workers = {worker(1'000'000, 0), worker(1'000'000, 0)};
  before.workers[1].worker = 1;
  after.workers = {with_sources(1000, {{"203.0.113.7", 800}, {"198.51.100.1", 5}}),
                   with_sources(20, {{"2001:db8::/64", 10}, {"203.0.113.7", 4}})};
  after.workers[1].worker = 1;
  after.workers[1].packets = before.workers[1].packets + 16'000'000;  // of 64 and 16 million frames
  const TargetInterval t = only_target(before, after);
  REQUIRE(t.measured);
  const std::vector<SourceInterval>& sources = t.measured->sources;
  REQUIRE(sources.size() == 2);  // the third sends less than 1 %
  CHECK(sources[0].source == "203.0.113.7");
  CHECK(sources[0].share == about((0.8 * 64 + 0.2 * 16) / 80));
  CHECK(sources[1].source == "2001:db8::/64");
  CHECK(sources[1].share == about(0.5 * 16 / 80));
  Interval interval;
  interval.targets = {t};
  const std::string text = text_of(interval, Width::terminal);
  CHECK(text.find("source 203.0.113.7 sends about 68 %\n") != std::string::npos);
  CHECK(text.find("2001:db8") == std::string::npos);

  // Too few frames to judge by; a worker that judged none in the interval has old ones.
  after.workers = {with_sources(31, {{"203.0.113.7", 31}})};
  CHECK(only_target(before, after).measured->sources.empty());
  after.workers = {with_sources(1000, {{"203.0.113.7", 900}})};
  after.workers[0].packets = before.workers[0].packets;
  CHECK(only_target(before, after).measured->sources.empty());
}
