#include "dataplane/serve/control.h"

#include <fmt/format.h>
#include <rte_cycles.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>

#include "common/clock.h"
#include "common/log/log.h"

namespace weir::dataplane {

namespace {

template <class Body>
Answer answer_with(wire::Type type, const Body& body) {
  const std::span<const std::byte> bytes = wire::bytes_of(body);
  return {type, {bytes.begin(), bytes.end()}};
}

Answer answer_with(const wire::Stats& stats) {
  const std::span<const std::byte> lists = std::as_bytes(std::span(stats.lists));
  Answer answer = {wire::Type::stats, std::vector<std::byte>(sizeof stats.body + lists.size())};
  memcpy(answer.body.data(), &stats.body, sizeof stats.body);
  if (!lists.empty()) memcpy(answer.body.data() + sizeof stats.body, lists.data(), lists.size());
  return answer;
}

// Why it was published, controld's log tells of the same generation.
void tell_enforced(const wire::PublishedBody& published, const Publisher::Enforced& enforced) {
  log::Fields fields = {{"generation", published.generation.number},
                        {"epoch", fmt::format("{:016x}", published.generation.epoch)},
                        {"cause", "published by controld"}};
  if (enforced.what.base != enforced.what.generation) fields.emplace_back("base", enforced.what.base.number);
  fields.emplace_back("digest", fmt::format("{:016x}{:016x}", enforced.what.digest[1], enforced.what.digest[0]));
  fields.emplace_back("bytes", enforced.snapshot_bytes);
  fields.emplace_back("took", log::milliseconds(published.total_us / 1000.0));
  fields.emplace_back("grace", log::milliseconds(published.grace_us / 1000.0));
  log::change("enforced", std::move(fields));
}

uint32_t monotonic_us() {
  const auto now = Clock::now().time_since_epoch();
  return static_cast<uint32_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
}

}  // namespace

Control::Control(const Parts& parts) : parts_(parts), start_time_unix_(static_cast<uint64_t>(unix_now())) {}

void Control::answer(wire::Message request, Reply reply) {
  const auto type = static_cast<wire::Type>(request.header.type);
  if (type == wire::Type::publish) return publish(std::move(request), std::move(reply));
  if (type == wire::Type::bypass) return bypass(request, std::move(reply));
  if (type == wire::Type::shadow) return shadow(std::move(request), std::move(reply));
  reply(look(request));
}

Answer Control::look(const wire::Message& request) {
  const auto type = static_cast<wire::Type>(request.header.type);
  if (type == wire::Type::telemetry) return telemetry(request);
  if (type == wire::Type::samples) return samples(request);
  if (type == wire::Type::traffic) return traffic(request);
  if (type != wire::Type::status && type != wire::Type::stats && type != wire::Type::ports &&
      type != wire::Type::probes) {
    return refuse("this message is no request");
  }
  if (!request.body.empty()) return refuse("the request must have no body");
  if (type == wire::Type::ports) return {type, wire::encode_ports(ports())};
  if (type == wire::Type::probes) return {type, wire::encode_probes(parts_.publisher.probes())};
  return type == wire::Type::status ? answer_with(type, status()) : answer_with(stats());
}

void Control::publish(wire::Message request, Reply reply) {
  parts_.publisher.publish(std::move(request), [this, reply = std::move(reply)](const wire::PublishedBody& published) {
    if (published.ok != 0) {
      tell_enforced(published, parts_.publisher.enforced());
    } else {
      log::warning("publication refused: what was enforced stays", {{"step", wire::step_name(published.failed_step)},
                                                                    {"error", wire::get_text(published.reason)},
                                                                    {"generation", published.generation.number}});
    }
    reply(answer_with(wire::Type::publish, published));
  });
}

void Control::panic(const wire::Message& request, Reply reply) {
  if (request.header.type == static_cast<uint16_t>(wire::Type::bypass)) return bypass(request, std::move(reply));
  reply(refuse("this socket takes orders of the panic switch, and nothing else"));
}

void Control::bypass(const wire::Message& request, Reply reply) {
  const std::optional<wire::BypassBody> body = wire::body_as<wire::BypassBody>(request);
  if (!body || body->on > 1) return reply(refuse("a bypass request holds 0 or 1"));
  const bool on = body->on == 1;
  parts_.bypass.order(on, [this, reply = std::move(reply)](const Result<void>& saved) {
    wire::StatusBody now = status();
    now.bypass_durable = saved ? 1 : 0;
    if (!saved) wire::set_text(now.disk_error, saved.error());
    reply(answer_with(wire::Type::bypass, now));
  });
}

wire::StatusBody Control::status() const {
  wire::StatusBody status;
  wire::set_text(status.version, WEIR_VERSION);
  wire::set_text(status.isa, parts_.isa);
  status.start_time_unix = start_time_unix_;
  status.snapshot_limit_bytes = parts_.publisher.limit_bytes();
  for (const Worker& worker : parts_.workers) status.workers += !worker.routes.empty();
  status.ports = parts_.n_ports;
  status.bypass = parts_.bypass.is_on();
  const std::string bypass_error = parts_.bypass.disk_error();
  status.bypass_durable = bypass_error.empty();
  const Publisher::Enforced enforced = parts_.publisher.enforced();
  status.generation = enforced.what.generation;
  status.base = enforced.what.base;
  std::copy(enforced.what.digest.begin(), enforced.what.digest.end(), status.digest);
  std::copy(enforced.what.base_digest.begin(), enforced.what.base_digest.end(), status.base_digest);
  status.snapshot_bytes = enforced.snapshot_bytes;
  status.overlay_bytes = enforced.overlay_bytes;
  status.overlay_keys = enforced.overlay_keys;
  status.huge_pages = enforced.huge;
  status.shadow = enforced.shadow;
  status.snapshot_durable = enforced.durable;
  wire::set_text(status.disk_error, bypass_error.empty() ? enforced.disk_error : bypass_error);
  return status;
}

Answer Control::telemetry(const wire::Message& request) const {
  const std::optional<wire::TelemetryRequest> body = wire::body_as<wire::TelemetryRequest>(request);
  if (!body || body->worker >= workers()) {
    return refuse("a telemetry request names one of the workers 0 to " + std::to_string(workers() - 1));
  }
  return {wire::Type::telemetry, wire::encode_telemetry(telemetry(body->worker))};
}

wire::Telemetry Control::telemetry(uint32_t id) const {
  const Worker& worker = parts_.workers[id];
  wire::Telemetry telemetry;
  wire::TelemetryBody& body = telemetry.body;
  body.worker = id;
  body.workers = workers();
  body.lcore = worker.lcore;
  body.queues = static_cast<uint32_t>(worker.routes.size());
  body.sample_one_in = parts_.sample_one_in;
  body.tsc_hz = rte_get_tsc_hz();
  body.taken_cycles = rte_rdtsc();
  body.packets = worker.counters.packets.get();
  body.bytes = worker.counters.bytes.get();
  body.passed = worker.counters.passed.get();
  body.dropped = worker.counters.dropped.get();
  worker.gauges.add_to(telemetry, body.taken_cycles);
  worker.load.add_to(telemetry, worker.routes);
  return telemetry;
}

Answer Control::samples(const wire::Message& request) {
  const std::optional<wire::SamplingBody> wanted = wire::body_as<wire::SamplingBody>(request);
  if (!wanted || wanted->snap_bytes > wire::kMaxSnapBytes) {
    return refuse(fmt::format("a request for samples has a wrong size, or asks for more than {} bytes of a frame",
                              wire::kMaxSnapBytes));
  }
  const uint64_t ticks_per_second = rte_get_tsc_hz();
  const SampleClock clock(tsc_ticks(), ticks_per_second);
  wire::SamplesBody body = {.start_time_unix = start_time_unix_};
  Answer answer = {wire::Type::samples, std::vector<std::byte>(sizeof body)};
  for (Worker& worker : parts_.workers) {
    worker.sampler.set(*wanted, ticks_per_second);
    body.n_samples += append_samples(worker.sampler, clock, wire::kMaxMessageBytes - sizeof(wire::Header), answer.body);
    body.limited += worker.sampler.limited();
    body.lost += worker.sampler.lost();
    body.waiting += worker.sampler.ring().size();
    body.sampled += worker.sampler.sampled();
  }
  samples_told_ += body.n_samples;
  body.told = samples_told_;
  memcpy(answer.body.data(), &body, sizeof body);
  return answer;
}

Answer Control::traffic(const wire::Message& request) {
  const std::optional<wire::TrafficRequest> wanted = wire::body_as<wire::TrafficRequest>(request);
  if (!wanted) return refuse("a request for samples of traffic has a wrong size");
  const uint64_t now_ticks = tsc_ticks(), ticks_per_second = rte_get_tsc_hz();
  const SampleClock clock(now_ticks, ticks_per_second);
  uint64_t packets = 0;
  for (const Worker& worker : parts_.workers) packets += worker.counters.packets.get();
  const uint32_t one_in = traffic_pace_.one_in(wanted->per_second, packets, now_ticks, ticks_per_second);
  wire::TrafficBody body = {.start_time_unix = start_time_unix_};
  Answer answer = {wire::Type::traffic, std::vector<std::byte>(sizeof body)};
  for (Worker& worker : parts_.workers) {
    body.n_samples += append_traffic(worker.traffic, clock, wire::kMaxMessageBytes - sizeof(wire::Header), answer.body);
    worker.traffic.set(one_in);
    body.lost += worker.traffic.lost();
    body.waiting += worker.traffic.ring().size();
    body.sampled += worker.traffic.sampled();
  }
  traffic_told_ += body.n_samples;
  body.told = traffic_told_;
  memcpy(answer.body.data(), &body, sizeof body);
  return answer;
}

// Asking waits for nobody; beginning and ending are the publisher's.
void Control::shadow(wire::Message request, Reply reply) {
  const std::optional<wire::ShadowRequest> wanted = wire::body_as<wire::ShadowRequest>(request);
  if (!wanted || wanted->action > wire::ShadowAction::end) {
    return reply(refuse("a request for a shadow has a wrong size, or asks for something unknown"));
  }
  const auto tell = [reply = std::move(reply)](wire::Shadow told) {
    const uint64_t ticks_per_second = rte_get_tsc_hz();
    const SampleClock clock(tsc_ticks(), ticks_per_second);
    told.body.tsc_hz = ticks_per_second;
    for (wire::ShadowSample& sample : told.samples) sample.time_unix_ns = clock.unix_ns(sample.time_unix_ns);
    reply({wire::Type::shadow, wire::encode_shadow(told)});
  };
  if (wanted->action == wire::ShadowAction::ask) return tell(parts_.publisher.shadow());
  parts_.publisher.shadow(std::move(request), tell);
}

wire::Totals Control::totals() const {
  wire::Totals totals = {};
  for (const Worker& worker : parts_.workers) worker.counters.add_to(totals);
  totals.rx_missed += parts_.rx_missed();
  return totals;
}

wire::Stats Control::stats() const {
  wire::Stats stats;
  Publisher::Counts counts = parts_.publisher.counts();
  stats.body.generation = counts.generation;
  stats.body.start_time_unix = start_time_unix_;
  stats.body.taken_us = monotonic_us();
  stats.body.totals = totals();
  stats.lists = std::move(counts.lists);
  stats.body.n_lists = static_cast<uint32_t>(stats.lists.size());
  return stats;
}

}  // namespace weir::dataplane
