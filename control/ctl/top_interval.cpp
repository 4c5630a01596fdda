#include "control/ctl/top_interval.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "common/histogram.h"

namespace weir::control::ctl {

namespace {

// A member of the same object in both answers.
struct Pair {
  const Json& before;
  const Json& after;

  uint64_t added(const char* name) const { return after.at(name).get<uint64_t>() - before.at(name).get<uint64_t>(); }
  Pair at(const char* name) const { return {before.at(name), after.at(name)}; }
};

double per(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

// A second has a million microseconds: counts per microsecond are millions per second.
double mega(uint64_t count, double seconds) {
  return per(static_cast<double>(count), seconds) / 1e6;
}

double gigabits(uint64_t bytes, double seconds) {
  return per(static_cast<double>(bytes) * 8, seconds) / 1e9;
}

// Null: of nothing.
Json ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? Json() : Json(static_cast<double>(part) / static_cast<double>(whole));
}

std::vector<Bucket> added_buckets(Pair histograms) {
  std::map<uint64_t, uint64_t> before;
  for (const Json& bucket : histograms.before) before[bucket.at(0).get<uint64_t>()] = bucket.at(1).get<uint64_t>();
  std::vector<Bucket> added;
  for (const Json& bucket : histograms.after) {
    const uint64_t upper = bucket.at(0).get<uint64_t>();
    const uint64_t count = bucket.at(1).get<uint64_t>() - before[upper];
    if (count != 0) added.push_back({upper, count});
  }
  return added;
}

Json buckets_json(const std::vector<Bucket>& buckets) {
  Json json = Json::array();
  for (const Bucket& bucket : buckets) json.push_back(Json::array({bucket.upper, bucket.count}));
  return json;
}

Json percentiles_us(const std::vector<Bucket>& buckets, uint64_t tsc_hz) {
  const auto us = [&](uint64_t cycles) {
    return buckets.empty() ? Json() : Json(static_cast<double>(cycles) * 1e6 / static_cast<double>(tsc_hz));
  };
  return {{"p50", us(percentile(buckets, 0.5))},
          {"p99", us(percentile(buckets, 0.99))},
          {"p999", us(percentile(buckets, 0.999))},
          {"max", us(largest(buckets))}};
}

Json stages_json(Pair stages) {
  Json json = Json::object();
  double total = 0;
  bool known = true;
  for (const auto& [name, after] : stages.after.items()) {
    const Pair stage{stages.before.at(name), after};
    json[name] = ratio(stage.added("cycles"), stage.added("packets"));
    known = known && !json[name].is_null();
    total += json[name].is_null() ? 0 : json[name].get<double>();
  }
  json["total"] = known ? Json(total) : Json();
  return json;
}

struct Bursts {
  Json sizes = Json::array();
  uint64_t polls = 0, bursts = 0, packets = 0;
};

Bursts added_bursts(Pair sizes) {
  Bursts bursts;
  for (size_t n = 0; n < sizes.after.size(); n++) {
    const uint64_t count = sizes.after.at(n).get<uint64_t>() - sizes.before.at(n).get<uint64_t>();
    bursts.sizes.push_back(count);
    bursts.polls += count;
    bursts.bursts += n > 0 ? count : 0;
    bursts.packets += n * count;
  }
  return bursts;
}

Json worker_json(Pair worker) {
  const uint64_t tsc_hz = worker.after.at("tsc_hz").get<uint64_t>();
  const double seconds = static_cast<double>(worker.added("taken_cycles")) / static_cast<double>(tsc_hz);
  const Bursts bursts = added_bursts(worker.at("burst_sizes"));
  const Pair histograms = worker.at("histograms");
  const std::vector<Bucket> passes = added_buckets(histograms.at("pass_cycles"));
  const std::vector<Bucket> latencies = added_buckets(histograms.at("latency_cycles"));
  Json json = {{"worker", worker.after.at("worker")},
               {"lcore", worker.after.at("lcore")},
               {"queues", worker.after.at("queues")},
               {"idle_mode", worker.after.at("idle_mode")},
               {"sample_one_in", worker.after.at("sample_one_in")},
               {"seconds", seconds},
               {"tsc_hz", tsc_hz},
               {"busy", ratio(worker.added("busy_cycles"), worker.added("total_cycles"))},
               {"rests_per_s", per(static_cast<double>(worker.added("rests")), seconds)},
               {"packets", worker.added("packets")},
               {"mpps", mega(worker.added("packets"), seconds)},
               {"gbps", gigabits(worker.added("bytes"), seconds)},
               {"passed_mpps", mega(worker.added("passed"), seconds)},
               {"dropped_mpps", mega(worker.added("dropped"), seconds)}};
  json["empty_polls"] = ratio(bursts.polls - bursts.bursts, bursts.polls);
  json["average_burst"] = ratio(bursts.packets, bursts.bursts);
  json["cycles_per_packet"] = stages_json(worker.at("stages"));
  json["latency_us"] = percentiles_us(latencies, tsc_hz);
  json["pass_us"] = percentiles_us(passes, tsc_hz);
  json["burst_sizes"] = bursts.sizes;
  json["histograms"] = {{"pass_cycles", buckets_json(passes)}, {"latency_cycles", buckets_json(latencies)}};
  return json;
}

Json port_json(Pair port) {
  const double seconds = static_cast<double>(port.added("taken_us")) / 1e6;
  Json json = Json::object();
  for (const char* name : {"port", "name", "driver", "link_up", "speed_mbps"}) json[name] = port.after.at(name);
  json["seconds"] = seconds;
  json["rx_mpps"] = mega(port.added("rx_packets"), seconds);
  json["tx_mpps"] = mega(port.added("tx_packets"), seconds);
  json["rx_gbps"] = gigabits(port.added("rx_bytes"), seconds);
  json["tx_gbps"] = gigabits(port.added("tx_bytes"), seconds);
  for (const char* name : {"rx_missed", "rx_errors", "tx_errors", "rx_nombuf"}) json[name] = port.added(name);
  return json;
}

Json lists_json(const Json& before, const Json& after, double seconds) {
  std::vector<Json> lists;
  for (const auto& [name, counts] : after.items()) {
    Json list = {{"name", name}};
    for (const char* counter : {"matched", "dropped", "passed", "would_drop"}) {
      const uint64_t was = before.contains(name) ? before.at(name).at(counter).get<uint64_t>() : 0;
      list[std::string(counter) + "_pps"] = per(static_cast<double>(counts.at(counter).get<uint64_t>() - was), seconds);
    }
    lists.push_back(std::move(list));
  }
  std::stable_sort(lists.begin(), lists.end(),
                   [](const Json& a, const Json& b) { return a.at("dropped_pps") > b.at("dropped_pps"); });
  return lists;
}

// Pairs of the objects that both arrays hold, by a member that names them.
template <class Make>
Json each_pair(const Json& before, const Json& after, const char* key, Make make) {
  Json all = Json::array();
  for (const Json& now : after) {
    const auto was =
        std::find_if(before.begin(), before.end(), [&](const Json& other) { return other.at(key) == now.at(key); });
    if (was != before.end()) all.push_back(make(Pair{*was, now}));
  }
  return all;
}

const char* state_of(const Json& before, const Json& after) {
  if (!after.at("connected").get<bool>()) return "away";
  if (!after.at("fresh").get<bool>()) return "silent";
  if (before.is_null() || !before.at("fresh").get<bool>()) return "new";
  const bool again = before.at("start_time") != after.at("start_time") || before.at("packets") > after.at("packets");
  return again ? "restarted" : "measured";
}

Json target_json(const Json& before, const Json& after) {
  const std::string state = state_of(before, after);
  Json json = {{"socket", after.at("socket")},
               {"state", state},
               {"last_error", after.at("last_error")},
               {"generation", after.at("generation")}};
  if (state != "measured") return json;
  const Pair target{before, after};
  const uint32_t us = static_cast<uint32_t>(target.added("taken_us"));  // modulo 2^32, as told
  const double seconds = us / 1e6;
  json["seconds"] = seconds;
  json["mpps"] = mega(target.added("packets"), seconds);
  json["gbps"] = gigabits(target.added("bytes"), seconds);
  json["passed_mpps"] = mega(target.added("passed"), seconds);
  json["dropped_mpps"] = mega(target.added("dropped"), seconds);
  for (const char* name : {"packets", "passed", "dropped", "tx_lost", "rx_missed"}) json[name] = target.added(name);
  json["lists"] = lists_json(before.at("lists"), after.at("lists"), seconds);
  json["workers"] = each_pair(before.at("workers"), after.at("workers"), "worker", worker_json);
  json["ports"] = each_pair(before.at("ports"), after.at("ports"), "port", port_json);
  return json;
}

}  // namespace

Json interval_between(const Json& before, const Json& after) {
  Json targets = Json::array();
  const Json& known = before.at("targets");
  for (const Json& now : after.at("targets")) {
    const auto was = std::find_if(known.begin(), known.end(),
                                  [&](const Json& other) { return other.at("socket") == now.at("socket"); });
    targets.push_back(target_json(was == known.end() ? Json() : *was, now));
  }
  return {{"version", after.at("version")}, {"generation", after.at("generation")}, {"targets", std::move(targets)}};
}

}  // namespace weir::control::ctl
