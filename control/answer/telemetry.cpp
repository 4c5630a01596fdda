#include "control/answer/telemetry.h"

#include "control/answer/stats.h"

namespace weir::control {

namespace {

constexpr std::chrono::milliseconds kFreshWait{1000};  // a target that hangs must not hold the API for longer

Json histogram_json(const std::vector<Bucket>& buckets) {
  Json json = Json::array();
  for (const Bucket& bucket : buckets) json.push_back(Json::array({bucket.upper, bucket.count}));
  return json;
}

Json stages_json(const wire::TelemetryBody& body) {
  Json json = Json::object();
  for (uint32_t i = 0; i < wire::kStages; i++) {
    json[wire::stage_name(static_cast<wire::Stage>(i))] = {{"cycles", body.stages[i].cycles},
                                                           {"packets", body.stages[i].packets}};
  }
  return json;
}

Json worker_json(const wire::Telemetry& telemetry) {
  const wire::TelemetryBody& body = telemetry.body;
  return {{"worker", body.worker},
          {"lcore", body.lcore},
          {"queues", body.queues},
          {"idle_mode", wire::rest_name(body.rest)},
          {"sample_one_in", body.sample_one_in},
          {"tsc_hz", body.tsc_hz},
          {"taken_cycles", body.taken_cycles},
          {"total_cycles", body.total_cycles},
          {"busy_cycles", body.busy_cycles},
          {"rests", body.rests},
          {"packets", body.packets},
          {"bytes", body.bytes},
          {"passed", body.passed},
          {"dropped", body.dropped},
          {"stages", stages_json(body)},
          {"burst_sizes", body.burst_sizes},
          {"histograms",
           {{"pass_cycles", histogram_json(telemetry.pass_cycles)},
            {"latency_cycles", histogram_json(telemetry.latency_cycles)}}}};
}

Json port_json(const wire::PortStats& port, uint64_t taken_us) {
  return {{"port", port.port},
          {"name", wire::get_text(port.name)},
          {"driver", wire::get_text(port.driver)},
          {"link_up", port.link_up != 0},
          {"speed_mbps", port.speed_mbps},
          {"taken_us", taken_us},
          {"rx_packets", port.rx_packets},
          {"rx_bytes", port.rx_bytes},
          {"tx_packets", port.tx_packets},
          {"tx_bytes", port.tx_bytes},
          {"rx_missed", port.rx_missed},
          {"rx_errors", port.rx_errors},
          {"tx_errors", port.tx_errors},
          {"rx_nombuf", port.rx_nombuf}};
}

Json target_json(TargetLink& target, Clock::time_point deadline) {
  const bool fresh = target.refresh_stats(deadline) && target.refresh_telemetry(deadline);
  const TargetState state = target.state();
  Json json = target_stats(state, fresh);
  json["last_error"] = state.last_error;
  json["workers"] = Json::array();
  json["ports"] = Json::array();
  if (!state.telemetry) return json;
  for (const wire::Telemetry& worker : state.telemetry->workers) json["workers"].push_back(worker_json(worker));
  const wire::Ports& ports = state.telemetry->ports;
  for (const wire::PortStats& port : ports.ports) json["ports"].push_back(port_json(port, ports.taken_us));
  return json;
}

}  // namespace

Json telemetry(Daemon& daemon, const Json&) {
  const Clock::time_point deadline = Clock::now() + kFreshWait;
  Json targets = Json::array();
  for (const auto& target : daemon.targets()) targets.push_back(target_json(*target, deadline));
  return {{"generation", to_json(daemon.running()->publication->generation)}, {"targets", std::move(targets)}};
}

}  // namespace weir::control
