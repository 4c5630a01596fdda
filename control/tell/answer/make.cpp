#include "control/tell/answer/make.h"

#include <span>

#include "filter/format/packet.h"
#include "filter/layouts/layout.h"

namespace weir::control {

namespace {

std::vector<std::string> flow_fields(uint8_t fields) {
  std::vector<std::string> names;
  if ((fields & WEIR_FLOW_PROTOCOL) != 0) names.emplace_back("proto");
  if ((fields & WEIR_FLOW_SPORT) != 0) names.emplace_back("sport");
  if ((fields & WEIR_FLOW_DPORT) != 0) names.emplace_back("dport");
  return names;
}

InterfaceStatus status_of(const wire::InterfaceBody& interface) {
  const bool attached = interface.attached != 0;
  return {wire::get_text(interface.name), interface.index, attached,
          !attached               ? ""
          : interface.native != 0 ? "native"
                                  : "generic",
          wire::get_text(interface.error)};
}

WorkerTelemetry measures_of(const wire::Telemetry& telemetry) {
  const wire::TelemetryBody& body = telemetry.body;
  WorkerTelemetry worker;
  worker.worker = body.worker;
  worker.lcore = body.lcore;
  worker.queues = body.queues;
  worker.idle_mode = wire::rest_name(body.rest);
  worker.sample_one_in = body.sample_one_in;
  worker.tsc_hz = body.tsc_hz;
  worker.taken_cycles = body.taken_cycles;
  worker.total_cycles = body.total_cycles;
  worker.busy_cycles = body.busy_cycles;
  worker.rests = body.rests;
  worker.packets = body.packets;
  worker.bytes = body.bytes;
  worker.passed = body.passed;
  worker.dropped = body.dropped;
  for (uint32_t i = 0; i < wire::kStages; i++) {
    worker.stages.emplace_back(wire::stage_name(static_cast<wire::Stage>(i)), body.stages[i]);
  }
  worker.burst_sizes.assign(std::begin(body.burst_sizes), std::end(body.burst_sizes));
  for (const wire::QueueCount& queue : telemetry.queues) {
    worker.queue_packets.push_back({queue.port, queue.queue, queue.packets});
  }
  const auto frames = [](uint64_t weight) { return static_cast<double>(weight) / wire::kFrameWeight; };
  worker.sampled = frames(body.sampled);
  for (const wire::SourceCount& source : telemetry.sources) {
    worker.sources.push_back({wire::source_text(source), frames(source.weight)});
  }
  worker.histograms = {telemetry.pass_cycles, telemetry.latency_cycles};
  return worker;
}

PortTelemetry measures_of(const wire::PortStats& port, uint64_t taken_us) {
  return {port.port,
          wire::get_text(port.name),
          wire::get_text(port.driver),
          port.link_up != 0,
          port.speed_mbps,
          taken_us,
          port.rx_packets,
          port.rx_bytes,
          port.tx_packets,
          port.tx_bytes,
          port.rx_missed,
          port.rx_errors,
          port.tx_errors,
          port.rx_nombuf};
}

}  // namespace

ShapeDetails details_of(const ShapeReport& report) {
  const weir_shape& shape = report.shape;
  ShapeDetails details;
  details.name = report.name;
  details.family = shape.family;
  details.addr_bits = shape.addr_bits;
  details.with_port = shape.with_port != 0;
  details.flow = shape.flow != 0;
  details.destination_bits = shape.destination_bits;
  details.flow_fields = flow_fields(shape.flow_fields);
  details.layout = filter::layout_of(static_cast<weir_layout>(shape.layout)).name;
  details.layout_why = report.layout_why;
  details.k = shape.k;
  details.bits_per_key = report.bits_per_key;
  details.directions = shape.directions;
  details.keys = shape.n_keys;
  details.filter_bytes = shape.filter.size_bytes;
  details.exact_bytes = shape.exact.size_bytes + shape.chunks.size_bytes;
  details.expected_fpr = report.expected_fpr;
  details.measured_fpr = report.measured_fpr;
  details.why = report.why;
  return details;
}

GateDetails details_of(const GateReport& report) {
  constexpr const char* kKinds[] = {"open", "closed", "tables"};
  GateDetails details;
  details.name = report.name;
  details.family = report.family;
  details.side = report.side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
  details.kind = kKinds[report.gate.kind];
  for (const weir_gate_table& table : std::span(report.gate.table, report.gate.n_tables)) {
    details.tables.push_back({table.prefix_bits, table.index_bits, table.bits.size_bytes});
  }
  details.expected_share = report.expected_share;
  details.measured_share = report.measured_share;
  details.why = report.why;
  return details;
}

ListDetails details_of(const ListSummary& list) {
  ListDetails details;
  details.name = list.name;
  details.comment = list.comment;
  details.action = list.action == WEIR_DROP ? "drop" : "pass";
  details.mode = list.mode == WEIR_MONITOR ? "monitor" : "enforce";
  details.match = list.match;
  details.entries = list.entries;
  details.v4 = list.v4;
  details.v6 = list.v6;
  details.flows = list.flows;
  if (list.ipv6_aggregate != 128) details.widened = {list.ipv6_aggregate, list.ipv6_widened};
  if (list.dynamic) details.dynamic = {list.dynamic->max_entries, list.dynamic->max_ttl_s};
  if (!list.file.empty()) details.feed = list.feed;
  if (list.feeds.size() == 1 && list.feeds[0].feed.path == list.feed.path) return details;
  for (const FeedFile& file : list.feeds) {
    if (!details.files) details.files.emplace();
    details.files->push_back(file.feed);
  }
  return details;
}

CaptureAnswer answer_of(const CaptureState& state) {
  const CaptureCounts& counts = state.counts;
  CaptureAnswer answer;
  answer.on = state.on;
  answer.last_error = state.error;
  answer.sampled = counts.sampled;
  answer.written = counts.written;
  answer.filtered = counts.filtered;
  answer.limited = counts.limited;
  answer.logged = counts.logged;
  answer.lost = counts.lost;
  answer.waiting = counts.waiting;
  if (!state.on) return answer;
  answer.settings = {state.settings, state.current, {}};
  for (const CaptureState::Target& target : state.targets) {
    answer.settings->targets.push_back({target.socket, target.error});
  }
  return answer;
}

TargetStatus status_of(const TargetState& state, wire::Generation running) {
  const wire::StatusBody told = state.status.value_or(wire::StatusBody{});
  TargetStatus status;
  status.socket = state.socket;
  status.connected = state.connected;
  // Before the first generation there is none to enforce.
  status.acknowledged = running.epoch != 0 && state.acknowledged == running;
  status.last_error = state.last_error;
  status.version = wire::get_text(told.version);
  status.generation = told.generation;
  status.bypass = told.bypass != 0;
  status.workers = told.workers;
  status.ports = told.ports;
  status.isa = wire::get_text(told.isa);
  status.snapshot_bytes = told.snapshot_bytes;
  status.snapshot_limit_bytes = told.snapshot_limit_bytes;
  status.huge_pages = told.huge_pages != 0;
  status.start_time = told.start_time_unix;
  status.durable = state.is_durable();
  status.disk_error = wire::get_text(told.disk_error);
  if (!state.has_interfaces) return status;
  status.interfaces.emplace();
  if (!state.interfaces) return status;
  for (const wire::InterfaceBody& interface : *state.interfaces) status.interfaces->push_back(status_of(interface));
  return status;
}

TargetStats stats_of(const TargetState& state, bool fresh) {
  const wire::Stats known = state.stats.value_or(wire::Stats{});
  TargetStats stats;
  stats.socket = state.socket;
  stats.connected = state.connected;
  stats.fresh = fresh;
  stats.start_time = known.body.start_time_unix;
  stats.taken_us = known.body.taken_us;
  stats.generation = known.body.generation;
  stats.totals = known.body.totals;
  for (const wire::ListStats& list : known.lists) add(list_of(stats.lists, wire::get_text(list.name)), list);
  return stats;
}

TargetMeasures measures_of(const TargetState& state, bool fresh) {
  TargetMeasures measures;
  measures.stats = stats_of(state, fresh);
  measures.last_error = state.last_error;
  if (!state.telemetry) return measures;
  for (const wire::Telemetry& worker : state.telemetry->workers) measures.workers.push_back(measures_of(worker));
  const wire::Ports& ports = state.telemetry->ports;
  for (const wire::PortStats& port : ports.ports) measures.ports.push_back(measures_of(port, ports.taken_us));
  return measures;
}

}  // namespace weir::control
