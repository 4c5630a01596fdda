#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/tell/answer/stats.h"

// What happened between two answers of controld to `telemetry`: rates by the targets' own time stamps, shares and
// percentiles of what was added in between. What did not happen has no cost: such a value is empty.
namespace weir::control::ctl {

struct Percentiles {
  std::optional<double> p50, p99, p999, max;
};
void members(Fields& f, Percentiles& percentiles);

struct CyclesPerPacket {
  std::optional<double> rx, parse, lookup, verdict, tx, total;
};
void members(Fields& f, CyclesPerPacket& cycles);

struct QueueInterval {
  uint32_t port = 0, queue = 0;
  uint64_t packets = 0;
  std::optional<double> share;  // of the worker's, 0 to 1
};
void members(Fields& f, QueueInterval& queue);

struct SourceInterval {
  std::string source;
  double share = 0;  // of the target's frames of late, 0 to 1
};
void members(Fields& f, SourceInterval& source);

struct WorkerInterval {
  uint32_t worker = 0, lcore = 0, queues = 0;
  std::string idle_mode;
  uint32_t sample_one_in = 0;
  double seconds = 0;
  uint64_t tsc_hz = 0;
  std::optional<double> busy;
  double rests_per_s = 0;
  uint64_t packets = 0;
  double mpps = 0, gbps = 0, passed_mpps = 0, dropped_mpps = 0;
  std::optional<double> empty_polls, average_burst;
  CyclesPerPacket cycles_per_packet;
  Percentiles latency_us, pass_us;
  std::vector<uint64_t> burst_sizes;
  std::vector<QueueInterval> queue_packets;
  WorkerHistograms histograms;
};
void members(Fields& f, WorkerInterval& worker);

struct PortInterval {
  uint32_t port = 0;
  std::string name, driver;
  bool link_up = false;
  uint32_t speed_mbps = 0;
  double seconds = 0, rx_mpps = 0, tx_mpps = 0, rx_gbps = 0, tx_gbps = 0;
  uint64_t rx_missed = 0, rx_errors = 0, tx_errors = 0, rx_nombuf = 0;
};
void members(Fields& f, PortInterval& port);

struct ListInterval {
  std::string name;
  double matched_pps = 0, dropped_pps = 0, passed_pps = 0, would_drop_pps = 0;
  bool former = false;
};
void members(Fields& f, ListInterval& list);

struct TargetInterval {
  struct Measured {
    double seconds = 0, mpps = 0, gbps = 0, passed_mpps = 0, dropped_mpps = 0;
    uint64_t packets = 0, passed = 0, dropped = 0, tx_lost = 0, rx_missed = 0;
    std::vector<ListInterval> lists;      // those that drop most first
    std::vector<SourceInterval> sources;  // those that send most first
    std::vector<WorkerInterval> workers;
    std::vector<PortInterval> ports;
  };
  std::string socket;
  std::string state;  // measured; away, silent, new, restarted: there is no interval
  std::string last_error;
  wire::Generation generation;
  std::optional<Measured> measured;
};
void members(Fields& f, TargetInterval::Measured& measured);
void members(Fields& f, TargetInterval& target);

struct Interval {
  std::string version;
  wire::Generation generation;
  std::vector<TargetInterval> targets;
};
void members(Fields& f, Interval& interval);

Interval interval_between(const TelemetryAnswer& before, const TelemetryAnswer& after);

}  // namespace weir::control::ctl
