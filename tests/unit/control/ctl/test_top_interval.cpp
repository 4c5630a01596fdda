#include "control/ctl/top_interval.h"
#include "tests/catch.h"

using namespace weir::control;
using ctl::interval_between;

namespace {

Json counts(uint64_t dropped) {
  return {{"matched", dropped}, {"dropped", dropped}, {"passed", 0}, {"would_drop", 0}};
}

// A worker that has judged so many bursts of 32 in `seconds`, and was busy half of them; a TSC of 1 GHz.
Json worker(uint64_t bursts, uint64_t seconds) {
  Json sizes = Json::array();
  for (int n = 0; n <= 64; n++) sizes.push_back(0);
  sizes[0] = 3 * bursts;
  sizes[32] = bursts;
  const auto cost = [&](uint64_t cycles) { return Json{{"cycles", cycles * bursts}, {"packets", 32 * bursts}}; };
  return {
      {"worker", 0},
      {"lcore", 1},
      {"queues", 1},
      {"idle_mode", "pause"},
      {"sample_one_in", 1},
      {"tsc_hz", 1'000'000'000},
      {"taken_cycles", 7'000'000'000 + seconds * 1'000'000'000},
      {"total_cycles", seconds * 1'000'000'000},
      {"busy_cycles", seconds * 500'000'000},
      {"rests", 0},
      {"packets", 32 * bursts},
      {"bytes", 32 * 100 * bursts},
      {"passed", 24 * bursts},
      {"dropped", 8 * bursts},
      {"stages",
       {{"rx", cost(320)}, {"parse", cost(640)}, {"lookup", cost(32)}, {"verdict", cost(64)}, {"tx", cost(0)}}},
      {"burst_sizes", sizes},
      {"histograms", {{"pass_cycles", {{1000, bursts}, {9000, seconds}}}, {"latency_cycles", {{2000, 32 * bursts}}}}}};
}

Json target(uint64_t bursts, uint64_t seconds) {
  const uint64_t taken_us = (4'294'000'000 + seconds * 1'000'000) % (uint64_t{1} << 32);
  return {{"socket", "/a"},
          {"connected", true},
          {"fresh", true},
          {"start_time", 5},
          {"taken_us", taken_us},
          {"last_error", ""},
          {"generation", {{"epoch", "1"}, {"number", 1}}},
          {"packets", 32 * bursts},
          {"bytes", 32 * 100 * bursts},
          {"passed", 24 * bursts},
          {"dropped", 8 * bursts},
          {"tx_lost", 0},
          {"rx_missed", seconds},
          {"lists", {{"few", counts(bursts)}, {"many", counts(7 * bursts)}}},
          {"workers", Json::array({worker(bursts, seconds)})},
          {"ports", Json::array({{{"port", 0},
                                  {"name", "net_null0"},
                                  {"driver", "net_null"},
                                  {"link_up", true},
                                  {"speed_mbps", 10000},
                                  {"taken_us", seconds * 2'000'000},
                                  {"rx_packets", 32 * bursts},
                                  {"rx_bytes", 3200 * bursts},
                                  {"tx_packets", 0},
                                  {"tx_bytes", 0},
                                  {"rx_missed", 0},
                                  {"rx_errors", 0},
                                  {"tx_errors", 0},
                                  {"rx_nombuf", 0}}})}};
}

Json answer(const std::vector<Json>& targets) {
  return {{"version", "1"}, {"generation", {{"epoch", "1"}, {"number", 1}}}, {"targets", targets}};
}

Json only_target(const Json& before, const Json& after) {
  return interval_between(answer({before}), answer({after})).at("targets").at(0);
}

Approx about(double value) {
  return Approx(value).epsilon(1e-9);
}

}  // namespace

TEST_CASE("rates are differences over the target's own time") {
  // Two seconds, over the wrap of the time stamp's 2^32 microseconds.
  const Json t = only_target(target(1'000'000, 0), target(3'000'000, 2));
  CHECK(t.at("state") == "measured");
  CHECK(t.at("seconds").get<double>() == about(2));
  CHECK(t.at("mpps").get<double>() == about(32));
  CHECK(t.at("dropped_mpps").get<double>() == about(8));
  CHECK(t.at("rx_missed") == 2);
  CHECK(t.at("lists").at(0).at("name") == "many");  // the one that drops most
  CHECK(t.at("lists").at(0).at("dropped_pps").get<double>() == about(7'000'000));
  CHECK(t.at("ports").at(0).at("rx_mpps").get<double>() == about(16));  // its own time stamps: four seconds
}

TEST_CASE("shares, costs and percentiles are those of the interval") {
  const Json t = only_target(target(1'000'000, 0), target(3'000'000, 2));
  const Json& w = t.at("workers").at(0);
  CHECK(w.at("busy").get<double>() == about(0.5));
  CHECK(w.at("mpps").get<double>() == about(32));
  CHECK(w.at("average_burst").get<double>() == about(32));
  CHECK(w.at("empty_polls").get<double>() == about(0.75));
  CHECK(w.at("cycles_per_packet").at("rx").get<double>() == about(10));
  CHECK(w.at("cycles_per_packet").at("total").get<double>() == about(33));
  CHECK(w.at("latency_us").at("p50").get<double>() == about(2));
  CHECK(w.at("pass_us").at("p999").get<double>() == about(1));
  CHECK(w.at("pass_us").at("max").get<double>() == about(9));  // new in this interval
  CHECK(w.at("histograms").at("pass_cycles") == Json({{1000, 2'000'000}, {9000, 2}}));
}

TEST_CASE("what did not happen has no cost") {
  const Json t = only_target(target(1000, 1), target(1000, 2));
  const Json& w = t.at("workers").at(0);
  CHECK(w.at("mpps") == 0);
  CHECK(w.at("average_burst").is_null());
  CHECK(w.at("cycles_per_packet").at("rx").is_null());
  CHECK(w.at("cycles_per_packet").at("total").is_null());
  CHECK(w.at("latency_us").at("p50").is_null());
}

TEST_CASE("a target without an interval says why") {
  const Json here = target(1000, 1);
  Json away = here, silent = here, restarted = target(10, 0), again = target(5000, 2);
  away["connected"] = false;
  away["fresh"] = false;
  silent["fresh"] = false;
  again["start_time"] = 6;
  CHECK(only_target(here, away).at("state") == "away");
  CHECK(only_target(here, silent).at("state") == "silent");
  CHECK(only_target(away, here).at("state") == "new");
  CHECK(only_target(here, restarted).at("state") == "restarted");
  CHECK(only_target(here, again).at("state") == "restarted");
  CHECK(interval_between(answer({}), answer({here})).at("targets").at(0).at("state") == "new");
}
