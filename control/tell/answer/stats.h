#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/telemetry.h"
#include "control/base/json/fields.h"
#include "control/enforce/capture/capture_state.h"
#include "control/tell/answer/parts.h"

// An answer tells what the targets and the capture count and measure.
namespace weir::control {

struct TargetState;

// ---------------------------------------------------------------------------------------------------------- capture

void members(Fields& f, CaptureCounts& counts);
void members(Fields& f, CaptureState::Target& target);
void members(Fields& f, CaptureState::Files& files);
void members(Fields& f, CaptureState& state);

// --------------------------------------------------------------------------------------------------------- counters

void members(Fields& f, wire::Totals& totals);
void members(Fields& f, wire::ListStats& list);

// Lists by name, in the order in which they were first seen.
using ListCounters = std::vector<std::pair<std::string, wire::ListStats>>;
wire::ListStats& list_of(ListCounters& lists, const std::string& name);  // made when it is not there

struct TargetStats {
  std::string socket;
  bool connected = false, fresh = false;
  uint64_t start_time = 0;
  uint32_t taken_us = 0;
  wire::Generation generation;
  wire::Totals totals = {};
  ListCounters lists;
};
void members(Fields& f, TargetStats& target);

struct StatsAnswer {
  wire::Totals totals = {};
  wire::Generation generation;
  ListCounters lists;
  std::vector<std::string> former;  // of these, lists that the policy has no more
  std::vector<TargetStats> targets;
  CaptureState capture;
};
void members(Fields& f, StatsAnswer& answer);

// fresh: it was told just now.
TargetStats stats_of(const TargetState& state, bool fresh);

void add(wire::ListStats& sums, const wire::ListStats& counters);
// Adds what a target counted.
void add(StatsAnswer& answer, TargetStats target);

// In the order in which people read them.
struct TotalRow {
  const char* name;
  uint64_t wire::Totals::*member;
  const char* unit;
  const char* meaning;
};
std::span<const TotalRow> totals_rows();

// -------------------------------------------------------------------------------------------------------- telemetry

// What workers and ports measure, as they told it. Whoever wants rates asks twice (control/ctl/top_interval.h).
// docs/operate/telemetry.md says what the numbers mean.

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

TargetMeasures measures_of(const TargetState& state, bool fresh);

}  // namespace weir::control
