#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/telemetry.h"
#include "control/tell/answer/stats.h"

// What workers and ports measure, as they told it. Whoever wants rates asks twice (control/ctl/top_interval.h).
// docs/operate/telemetry.md says what the numbers mean.
namespace weir::control {

void members(Fields& f, wire::StageCost& cost);

struct WorkerHistograms {
  std::vector<Bucket> pass_cycles, latency_cycles;
};
void members(Fields& f, WorkerHistograms& histograms);

struct QueueTelemetry {
  uint32_t port = 0, queue = 0;
  uint64_t packets = 0;
};
void members(Fields& f, QueueTelemetry& queue);

struct SourceTelemetry {
  std::string source;
  double sampled = 0;
};
void members(Fields& f, SourceTelemetry& source);

struct WorkerTelemetry {
  uint32_t worker = 0, lcore = 0, queues = 0;
  std::string idle_mode;
  uint32_t sample_one_in = 0;
  uint64_t tsc_hz = 0, taken_cycles = 0, total_cycles = 0, busy_cycles = 0, rests = 0;
  uint64_t packets = 0, bytes = 0, passed = 0, dropped = 0;
  std::vector<std::pair<std::string, wire::StageCost>> stages;
  std::vector<uint64_t> burst_sizes;
  std::vector<QueueTelemetry> queue_packets;
  double sampled = 0;
  std::vector<SourceTelemetry> sources;
  WorkerHistograms histograms;
};
void members(Fields& f, WorkerTelemetry& worker);

struct PortTelemetry {
  uint32_t port = 0;
  std::string name, driver;
  bool link_up = false;
  uint32_t speed_mbps = 0;
  uint64_t taken_us = 0;
  uint64_t rx_packets = 0, rx_bytes = 0, tx_packets = 0, tx_bytes = 0;
  uint64_t rx_missed = 0, rx_errors = 0, tx_errors = 0, rx_nombuf = 0;
};
void members(Fields& f, PortTelemetry& port);

struct TargetMeasures {
  TargetStats stats;
  std::string last_error;
  std::vector<WorkerTelemetry> workers;
  std::vector<PortTelemetry> ports;
};
void members(Fields& f, TargetMeasures& target);

struct TelemetryAnswer {
  std::string version = WEIR_VERSION;  // of controld
  wire::Generation generation;
  std::vector<std::string> former;  // lists that targets count still, and the policy has no more
  std::vector<TargetMeasures> targets;
};
void members(Fields& f, TelemetryAnswer& answer);

}  // namespace weir::control
