#include "common/telemetry.h"

#include <algorithm>
#include <cstring>

#include "common/ip.h"
#include "common/wire_rows.h"

namespace weir::wire {

static_assert(sizeof(TelemetryRequest) == 8 && sizeof(StageCost) == 16 && sizeof(Bucket) == 16);
static_assert(sizeof(TelemetryBody) == 24 + 9 * 8 + kStages * 16 + kBurstSizes * 8 + 24);
static_assert(sizeof(QueueCount) == 16 && sizeof(SourceCount) == 24);
static_assert(sizeof(PortStats) == 176 && sizeof(PortsBody) == 16);
static_assert(sizeof(Header) + sizeof(TelemetryBody) + 2 * kHistogramBuckets * sizeof(Bucket) +
                  kMaxQueues * sizeof(QueueCount) + kMaxSources * sizeof(SourceCount) <=
              kMaxMessageBytes);

namespace {

uint64_t size_of_parts(const TelemetryBody& body) {
  return (uint64_t{body.n_pass_buckets} + body.n_latency_buckets) * sizeof(Bucket) +
         uint64_t{body.n_queues} * sizeof(QueueCount) + uint64_t{body.n_sources} * sizeof(SourceCount);
}

}  // namespace

const char* stage_name(Stage stage) {
  switch (stage) {
    case Stage::rx:
      return "rx";
    case Stage::parse:
      return "parse";
    case Stage::lookup:
      return "lookup";
    case Stage::verdict:
      return "verdict";
    case Stage::tx:
      return "tx";
  }
  return "unknown";
}

const char* rest_name(Rest rest) {
  switch (rest) {
    case Rest::poll:
      return "poll";
    case Rest::pause:
      return "pause";
    case Rest::interrupt:
      return "interrupt";
    case Rest::sleep:
      return "sleep";
  }
  return "unknown";  // a peer may send any number
}

std::string source_text(const SourceCount& source) {
  if (source.family == 4) return to_string(static_cast<Ipv4>(source.address));
  return to_string(Ipv6{source.address} << 64) + "/64";
}

std::vector<std::byte> encode_telemetry(const Telemetry& telemetry) {
  TelemetryBody body = telemetry.body;
  body.n_pass_buckets = static_cast<uint32_t>(telemetry.pass_cycles.size());
  body.n_latency_buckets = static_cast<uint32_t>(telemetry.latency_cycles.size());
  body.n_queues = static_cast<uint32_t>(telemetry.queues.size());
  body.n_sources = static_cast<uint32_t>(telemetry.sources.size());
  std::vector<std::byte> bytes;
  append(bytes, std::span<const TelemetryBody>(&body, 1));
  append(bytes, std::span<const Bucket>(telemetry.pass_cycles));
  append(bytes, std::span<const Bucket>(telemetry.latency_cycles));
  append(bytes, std::span<const QueueCount>(telemetry.queues));
  append(bytes, std::span<const SourceCount>(telemetry.sources));
  return bytes;
}

std::optional<Telemetry> telemetry_from(const Message& message) {
  std::span<const std::byte> bytes = message.body;
  Telemetry telemetry;
  TelemetryBody& body = telemetry.body;
  if (bytes.size() < sizeof body) return std::nullopt;
  memcpy(static_cast<void*>(&body), bytes.data(), sizeof body);
  bytes = bytes.subspan(sizeof body);
  if (bytes.size() != size_of_parts(body)) return std::nullopt;
  telemetry.pass_cycles = take<Bucket>(bytes, body.n_pass_buckets);
  telemetry.latency_cycles = take<Bucket>(bytes, body.n_latency_buckets);
  telemetry.queues = take<QueueCount>(bytes, body.n_queues);
  telemetry.sources = take<SourceCount>(bytes, body.n_sources);
  const auto has_family = [](const SourceCount& source) { return source.family == 4 || source.family == 6; };
  if (!std::all_of(telemetry.sources.begin(), telemetry.sources.end(), has_family)) return std::nullopt;
  return telemetry;
}

std::vector<std::byte> encode_ports(const Ports& ports) {
  PortsBody body;
  body.taken_us = ports.taken_us;
  body.n_ports = static_cast<uint32_t>(ports.ports.size());
  std::vector<std::byte> bytes;
  append(bytes, std::span<const PortsBody>(&body, 1));
  append(bytes, std::span<const PortStats>(ports.ports));
  return bytes;
}

std::optional<Ports> ports_from(const Message& message) {
  std::span<const std::byte> bytes = message.body;
  PortsBody body;
  if (bytes.size() < sizeof body) return std::nullopt;
  memcpy(static_cast<void*>(&body), bytes.data(), sizeof body);
  bytes = bytes.subspan(sizeof body);
  if (bytes.size() != uint64_t{body.n_ports} * sizeof(PortStats)) return std::nullopt;
  return Ports{body.taken_us, take<PortStats>(bytes, body.n_ports)};
}

}  // namespace weir::wire
