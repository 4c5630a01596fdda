#include "dataplane/serve/telemetry.h"

#include <fmt/format.h>
#include <rte_telemetry.h>
#include <rte_version.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "common/log/log.h"

namespace weir::dataplane {

namespace {

constexpr size_t kListsAtOnce = 32, kQueuesAtOnce = 32;  // an answer of DPDK's holds 16 KiB

std::mutex mutex;
const Control* source = nullptr;  // guarded by mutex

void add(rte_tel_data* dict, const char* name, uint64_t value) {
#if RTE_VERSION >= RTE_VERSION_NUM(23, 3, 0, 0)
  rte_tel_data_add_dict_uint(dict, name, value);
#else
  rte_tel_data_add_dict_u64(dict, name, value);
#endif
}

void add(rte_tel_data* dict, const char* name, const std::string& text) {
  rte_tel_data_add_dict_string(dict, name, text.c_str());
}

// A dict inside a dict: DPDK has no arrays of dicts, so what is several is named by its number.
template <class Fill>
void add_dict(rte_tel_data* dict, const std::string& name, Fill fill) {
  rte_tel_data* inner = rte_tel_data_alloc();
  if (inner == nullptr) return;
  rte_tel_data_start_dict(inner);
  fill(inner);
  if (rte_tel_data_add_dict_container(dict, name.c_str(), inner, 0) != 0) rte_tel_data_free(inner);
}

std::optional<uint32_t> number_in(const char* params) {
  if (params == nullptr) return std::nullopt;
  const std::string_view text = params;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

void add_generation(rte_tel_data* dict, wire::Generation generation) {
  add(dict, "epoch", fmt::format("{:016x}", generation.epoch));
  add(dict, "number", generation.number);
}

uint64_t permille(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : part * 1000 / whole;
}

void add_times(rte_tel_data* dict, const std::vector<Bucket>& buckets, uint64_t tsc_hz) {
  const auto ns = [&](double fraction) {
    return static_cast<uint64_t>(static_cast<double>(percentile(buckets, fraction)) * 1e9 /
                                 static_cast<double>(tsc_hz));
  };
  add(dict, "count", count_of(buckets));
  add(dict, "p50", ns(0.5));
  add(dict, "p99", ns(0.99));
  add(dict, "p999", ns(0.999));
  add(dict, "max", ns(1));
}

void add_worker(rte_tel_data* dict, const wire::TelemetryBody& body) {
  add(dict, "worker", body.worker);
  add(dict, "lcore", body.lcore);
  add(dict, "queues", body.queues);
  add(dict, "idle_mode", std::string(wire::rest_name(body.rest)));
  add(dict, "packets", body.packets);
  add(dict, "bytes", body.bytes);
  add(dict, "passed", body.passed);
  add(dict, "dropped", body.dropped);
  add(dict, "total_cycles", body.total_cycles);
  add(dict, "busy_cycles", body.busy_cycles);
  add(dict, "idle_permille", permille(body.total_cycles - body.busy_cycles, body.total_cycles));
}

int status(const Control& control, const char*, rte_tel_data* data) {
  const wire::StatusBody status = control.status();
  rte_tel_data_start_dict(data);
  add(data, "version", wire::get_text(status.version));
  add(data, "isa", wire::get_text(status.isa));
  add(data, "start_time", status.start_time_unix);
  add(data, "workers", status.workers);
  add(data, "ports", status.ports);
  add(data, "bypass", status.bypass);
  add_dict(data, "generation", [&](rte_tel_data* dict) { add_generation(dict, status.generation); });
  add(data, "snapshot_bytes", status.snapshot_bytes);
  add(data, "snapshot_limit_bytes", status.snapshot_limit_bytes);
  add(data, "huge_pages", status.huge_pages);
  const wire::Totals totals = control.stats().body.totals;
  add(data, "packets", totals.packets);
  add(data, "bytes", totals.bytes);
  add(data, "passed", totals.passed);
  add(data, "dropped", totals.dropped);
  add(data, "tx_lost", totals.tx_lost);
  add(data, "rx_missed", totals.rx_missed);
  return 0;
}

int generation(const Control& control, const char*, rte_tel_data* data) {
  rte_tel_data_start_dict(data);
  add_generation(data, control.status().generation);
  return 0;
}

int workers(const Control& control, const char*, rte_tel_data* data) {
  rte_tel_data_start_dict(data);
  for (uint32_t id = 0; id < control.workers(); id++) {
    add_dict(data, std::to_string(id), [&](rte_tel_data* dict) { add_worker(dict, control.telemetry(id).body); });
  }
  return 0;
}

void add_stages(rte_tel_data* dict, const wire::TelemetryBody& body) {
  for (uint32_t i = 0; i < wire::kStages; i++) {
    add_dict(dict, wire::stage_name(static_cast<wire::Stage>(i)), [&](rte_tel_data* stage) {
      add(stage, "cycles", body.stages[i].cycles);
      add(stage, "packets", body.stages[i].packets);
    });
  }
}

void add_queues(rte_tel_data* dict, const std::vector<wire::QueueCount>& queues) {
  for (size_t i = 0; i < std::min(queues.size(), kQueuesAtOnce); i++) {
    add_dict(dict, std::to_string(i), [&](rte_tel_data* one) {
      add(one, "port", queues[i].port);
      add(one, "queue", queues[i].queue);
      add(one, "packets", queues[i].packets);
    });
  }
}

void add_sources(rte_tel_data* dict, const wire::Telemetry& telemetry) {
  for (size_t i = 0; i < telemetry.sources.size(); i++) {
    add_dict(dict, std::to_string(i), [&](rte_tel_data* one) {
      add(one, "source", wire::source_text(telemetry.sources[i]));
      add(one, "permille", permille(telemetry.sources[i].weight, telemetry.body.sampled));
    });
  }
}

int worker(const Control& control, const char* params, rte_tel_data* data) {
  const std::optional<uint32_t> id = number_in(params);
  if (!id || *id >= control.workers()) return -EINVAL;
  const wire::Telemetry telemetry = control.telemetry(*id);
  const wire::TelemetryBody& body = telemetry.body;
  rte_tel_data_start_dict(data);
  add_worker(data, body);
  add(data, "tsc_hz", body.tsc_hz);
  add(data, "taken_cycles", body.taken_cycles);
  add(data, "sample_one_in", body.sample_one_in);
  add(data, "rests", body.rests);
  add_dict(data, "stages", [&](rte_tel_data* dict) { add_stages(dict, body); });
  add_dict(data, "burst_sizes", [&](rte_tel_data* dict) {
    for (uint32_t n = 0; n < wire::kBurstSizes; n++) {
      if (body.burst_sizes[n] != 0) add(dict, std::to_string(n).c_str(), body.burst_sizes[n]);
    }
  });
  add_dict(data, "queue_packets", [&](rte_tel_data* dict) { add_queues(dict, telemetry.queues); });
  add(data, "sampled", body.sampled / wire::kFrameWeight);
  add_dict(data, "sources", [&](rte_tel_data* dict) { add_sources(dict, telemetry); });
  add_dict(data, "latency_ns", [&](rte_tel_data* dict) { add_times(dict, telemetry.latency_cycles, body.tsc_hz); });
  add_dict(data, "pass_ns", [&](rte_tel_data* dict) { add_times(dict, telemetry.pass_cycles, body.tsc_hz); });
  return 0;
}

int lists(const Control& control, const char* params, rte_tel_data* data) {
  const bool from_first = params == nullptr || *params == '\0';
  const std::optional<uint32_t> first = from_first ? 0 : number_in(params);
  if (!first) return -EINVAL;
  const std::vector<wire::ListStats> all = control.stats().lists;
  rte_tel_data_start_dict(data);
  for (size_t i = *first; i < std::min<size_t>(all.size(), *first + kListsAtOnce); i++) {
    add_dict(data, std::to_string(i), [&](rte_tel_data* dict) {
      add(dict, "name", wire::get_text(all[i].name));
      add(dict, "matched", all[i].matched);
      add(dict, "dropped", all[i].dropped);
      add(dict, "passed", all[i].passed);
      add(dict, "would_drop", all[i].would_drop);
      add(dict, "matched_bytes", all[i].matched_bytes);
      add(dict, "dropped_bytes", all[i].dropped_bytes);
      add(dict, "passed_bytes", all[i].passed_bytes);
      add(dict, "would_drop_bytes", all[i].would_drop_bytes);
      add(dict, "dropped_alone", all[i].dropped_alone);
      add(dict, "would_drop_alone", all[i].would_drop_alone);
      add(dict, "dropped_alone_bytes", all[i].dropped_alone_bytes);
      add(dict, "would_drop_alone_bytes", all[i].would_drop_alone_bytes);
    });
  }
  return 0;
}

int ports(const Control& control, const char*, rte_tel_data* data) {
  rte_tel_data_start_dict(data);
  for (const wire::PortStats& port : control.ports().ports) {
    add_dict(data, std::to_string(port.port), [&](rte_tel_data* dict) {
      add(dict, "port", port.port);
      add(dict, "name", wire::get_text(port.name));
      add(dict, "driver", wire::get_text(port.driver));
      add(dict, "link_up", port.link_up);
      add(dict, "speed_mbps", port.speed_mbps);
      add(dict, "rx_packets", port.rx_packets);
      add(dict, "rx_bytes", port.rx_bytes);
      add(dict, "tx_packets", port.tx_packets);
      add(dict, "tx_bytes", port.tx_bytes);
      add(dict, "rx_missed", port.rx_missed);
      add(dict, "rx_errors", port.rx_errors);
      add(dict, "tx_errors", port.tx_errors);
      add(dict, "rx_nombuf", port.rx_nombuf);
    });
  }
  return 0;
}

// One function a command, as DPDK asks for; it may be called when there is nobody to tell anything.
template <int (*answer)(const Control&, const char*, rte_tel_data*)>
int answer_to(const char*, const char* params, rte_tel_data* data) {
  const std::lock_guard lock(mutex);
  return source == nullptr ? -ENODEV : answer(*source, params, data);
}

struct Command {
  const char* name;
  telemetry_cb answer;
  const char* help;
};
constexpr Command kCommands[] = {
    {"/weir/status", answer_to<status>, "Version, generation, bypass, memory and totals. No parameters."},
    {"/weir/generation", answer_to<generation>, "The snapshot that is enforced. No parameters."},
    {"/weir/workers", answer_to<workers>, "Frames and load of every worker. No parameters."},
    {"/weir/worker", answer_to<worker>,
     "Stages, burst sizes, latency, idle share, queues and heavy sources of one worker. Parameter: its number."},
    {"/weir/lists", answer_to<lists>, "Counters of 32 lists. Parameter: number of the first one (default 0)."},
    {"/weir/ports", answer_to<ports>, "Link and counters of every port. No parameters."},
};

}  // namespace

TelemetryCommands::TelemetryCommands(const Control& control) {
  const std::lock_guard lock(mutex);
  source = &control;
  for (const Command& command : kCommands) {
    if (rte_telemetry_register_cmd(command.name, command.answer, command.help) != 0) {
      log::warning("DPDK's telemetry does not take a command", {{"command", command.name}});
    }
  }
}

TelemetryCommands::~TelemetryCommands() {
  const std::lock_guard lock(mutex);
  source = nullptr;
}

}  // namespace weir::dataplane
