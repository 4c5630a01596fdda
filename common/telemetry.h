#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/histogram.h"
#include "common/wire.h"

// What a data plane tells of its workers and ports (wire::Type::telemetry, wire::Type::ports).
// docs/operate/telemetry.md says what the numbers mean. All counts rise from the start of the data plane: a rate is the
// difference of two answers, over the difference of their own time stamps.
namespace weir::wire {

enum class Stage : uint32_t { rx, parse, lookup, verdict, tx };
constexpr uint32_t kStages = 5;
const char* stage_name(Stage stage);

// How a worker without frames spends its time.
enum class Rest : uint32_t { poll, pause, interrupt, sleep };
const char* rest_name(Rest rest);

constexpr uint32_t kMaxWorkers = 1024;  // of a data plane; DPDK's RTE_MAX_LCORE is smaller
constexpr uint32_t kBurstSizes = 65;    // 0..64 frames
constexpr uint32_t kMaxQueues = 256;    // of a worker, that are told of: the first ones
constexpr uint32_t kMaxSources = 32;    // of a worker, that are told of
constexpr uint32_t kFrameWeight = 256;  // of a frame that was sampled just now

// Cycles are those of the time stamp counter (TSC), at a fixed tsc_hz; the core's clock is another one.
struct TelemetryRequest {
  uint32_t worker = 0;
  uint32_t reserved = 0;
};

// Of the sampled passes.
struct StageCost {
  uint64_t cycles = 0;
  uint64_t packets = 0;
};

// One receive queue that a worker polls.
struct QueueCount {
  uint16_t port = 0, queue = 0;
  uint32_t reserved = 0;
  uint64_t packets = 0;  // that it gave
};

// One of the sources that send most.
struct SourceCount {
  uint64_t address = 0;  // as a number: IPv4, or the upper 64 bits of IPv6, whose lower 64 are left out
  uint32_t family = 4;   // 4 or 6
  uint32_t reserved = 0;
  uint64_t weight = 0;  // of its sampled frames: at most what they really weigh, less by 1/17 of `sampled` at most
};
// 203.0.113.7 or 2001:db8:0:1::/64
std::string source_text(const SourceCount& source);

struct TelemetryBody {
  uint32_t worker = 0;
  uint32_t workers = 0;  // of the data plane: 0..workers-1 can be asked for
  uint32_t lcore = 0;
  uint32_t queues = 0;         // that it polls; 0: it has nothing to do
  uint32_t sample_one_in = 0;  // passes; 0: none is timed
  Rest rest = Rest::poll;
  uint64_t tsc_hz = 0;
  uint64_t taken_cycles = 0;  // the TSC when this was told
  uint64_t total_cycles = 0;  // since it began to poll
  uint64_t busy_cycles = 0;   // of these, in passes that had frames
  uint64_t rests = 0;         // times it paused or slept
  uint64_t packets = 0, bytes = 0, passed = 0, dropped = 0;
  StageCost stages[kStages] = {};
  uint64_t burst_sizes[kBurstSizes] = {};  // polls of a queue that gave so many frames
  uint32_t n_pass_buckets = 0;             // Buckets that follow: of pass_cycles, then of latency_cycles
  uint32_t n_latency_buckets = 0;
  // Of frames of timed passes: kFrameWeight each, and half as much every some seconds.
  uint64_t sampled = 0;
  uint32_t n_queues = 0;   // QueueCounts that follow the buckets
  uint32_t n_sources = 0;  // SourceCounts that follow these
};

struct Telemetry {
  TelemetryBody body;
  std::vector<Bucket> pass_cycles;     // of each sampled pass that had frames
  std::vector<Bucket> latency_cycles;  // of each frame of a sampled pass, from rx to tx
  std::vector<QueueCount> queues;
  std::vector<SourceCount> sources;
};
std::vector<std::byte> encode_telemetry(const Telemetry& telemetry);
// Empty: not all of it is there, or more, or a source is of no family.
std::optional<Telemetry> telemetry_from(const Message& message);

struct PortStats {
  char name[64] = {};
  char driver[32] = {};
  uint32_t port = 0;
  uint32_t link_up = 0;
  uint32_t speed_mbps = 0;  // 0: unknown
  uint32_t reserved = 0;
  uint64_t rx_packets = 0, rx_bytes = 0, tx_packets = 0, tx_bytes = 0;
  uint64_t rx_missed = 0;  // the ring was full
  uint64_t rx_errors = 0, tx_errors = 0;
  uint64_t rx_nombuf = 0;  // no mbuf was free
};

struct PortsBody {
  uint64_t taken_us = 0;  // of a monotonic clock
  uint32_t n_ports = 0;   // PortStats that follow
  uint32_t reserved = 0;
};

struct Ports {
  uint64_t taken_us = 0;
  std::vector<PortStats> ports;
};
std::vector<std::byte> encode_ports(const Ports& ports);
std::optional<Ports> ports_from(const Message& message);

}  // namespace weir::wire
