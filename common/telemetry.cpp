#include "common/telemetry.h"

#include <cstring>

namespace weir::wire {

static_assert(sizeof(TelemetryRequest) == 8 && sizeof(StageCost) == 16 && sizeof(Bucket) == 16);
static_assert(sizeof(TelemetryBody) == 24 + 9 * 8 + kStages * 16 + kBurstSizes * 8 + 8);
static_assert(sizeof(PortStats) == 176 && sizeof(PortsBody) == 16);
static_assert(sizeof(Header) + sizeof(TelemetryBody) + 2 * kHistogramBuckets * sizeof(Bucket) <= kMaxMessageBytes);

namespace {

template <class T>
void append(std::vector<std::byte>& bytes, std::span<const T> items) {
  const std::span<const std::byte> more = std::as_bytes(items);
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// n items from `at` on, which the caller knows to be there.
template <class T>
std::vector<T> items_at(std::span<const std::byte> bytes, size_t at, size_t n) {
  std::vector<T> items(n);
  if (n > 0) memcpy(static_cast<void*>(items.data()), bytes.data() + at, n * sizeof(T));
  return items;
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

std::vector<std::byte> encode_telemetry(const Telemetry& telemetry) {
  TelemetryBody body = telemetry.body;
  body.n_pass_buckets = static_cast<uint32_t>(telemetry.pass_cycles.size());
  body.n_latency_buckets = static_cast<uint32_t>(telemetry.latency_cycles.size());
  std::vector<std::byte> bytes;
  append(bytes, std::span<const TelemetryBody>(&body, 1));
  append(bytes, std::span<const Bucket>(telemetry.pass_cycles));
  append(bytes, std::span<const Bucket>(telemetry.latency_cycles));
  return bytes;
}

std::optional<Telemetry> telemetry_from(const Message& message) {
  const std::span<const std::byte> bytes = message.body;
  Telemetry telemetry;
  TelemetryBody& body = telemetry.body;
  if (bytes.size() < sizeof body) return std::nullopt;
  memcpy(static_cast<void*>(&body), bytes.data(), sizeof body);
  const size_t rest = bytes.size() - sizeof body;
  const uint64_t n_buckets = uint64_t{body.n_pass_buckets} + body.n_latency_buckets;
  if (rest % sizeof(Bucket) != 0 || rest / sizeof(Bucket) != n_buckets) return std::nullopt;
  telemetry.pass_cycles = items_at<Bucket>(bytes, sizeof body, body.n_pass_buckets);
  telemetry.latency_cycles =
      items_at<Bucket>(bytes, sizeof body + body.n_pass_buckets * sizeof(Bucket), body.n_latency_buckets);
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
  const std::span<const std::byte> bytes = message.body;
  PortsBody body;
  if (bytes.size() < sizeof body) return std::nullopt;
  memcpy(static_cast<void*>(&body), bytes.data(), sizeof body);
  const size_t rest = bytes.size() - sizeof body;
  if (rest % sizeof(PortStats) != 0 || rest / sizeof(PortStats) != body.n_ports) return std::nullopt;
  return Ports{body.taken_us, items_at<PortStats>(bytes, sizeof body, body.n_ports)};
}

}  // namespace weir::wire
