#include "control/tell/answer/stats.h"

#include <iterator>

#include "control/enforce/targets/target.h"

namespace weir::control {

// ---------------------------------------------------------------------------------------------------------- capture

void members(Fields& f, CaptureCounts& counts) {
  f({"sampled", "frames", "chosen by the targets: the sum of the next six"}, counts.sampled);
  f({"written", "frames", "in files"}, counts.written);
  f({"filtered", "frames", "that the filter does not want"}, counts.filtered);
  f({"limited", "frames", "past per_list_per_second"}, counts.limited);
  f({"logged", "frames", "while no files are written: in memory, for who follows"}, counts.logged);
  f({"lost", "frames", "no place in a ring, lost on the way, or not to be written"}, counts.lost);
  f({"waiting", "frames", "in a ring, for their entry, or for the next write"}, counts.waiting);
}

void members(Fields& f, CaptureState::Target& target) {
  f({"socket", "", "names the target"}, target.socket);
  f({"last_error", "", "why it gives no samples; empty: it does"}, target.error);
}

void members(Fields& f, CaptureState::Files& files) {
  CaptureSettings& settings = files.settings;
  f({"folder", "", "of the files"}, settings.folder);
  f({"one_in", "", "dropped frames of which one is a sample"}, settings.one_in);
  f({"per_list_per_second", "1/s", "samples of one list, at most"}, settings.per_list_per_second);
  f({"snap_bytes", "bytes", "of a frame that are kept"}, settings.snap_bytes);
  f({"filter", "", "as pcap-filter(7); empty: every frame"}, settings.filter);
  f({"file_bytes", "bytes", "after which the next file begins"}, settings.file_bytes);
  f({"file_age_s", "s", "after which the next file begins"}, settings.file_age_s);
  f({"files", "", "that are kept"}, settings.files);
  f({"current", "", "path of the file that is written; empty: none"}, files.current);
  f.array({"targets", "", "that give samples"}, files.targets, "capture target");
}

void members(Fields& f, CaptureState& state) {
  f({"on", "", "samples are fetched and written"}, state.on);
  f({"last_error", "", "why nothing is written; empty: well"}, state.error);
  members(f, state.counts);
  f.group("folder", state.files);
}

// --------------------------------------------------------------------------------------------------------- counters

namespace {

constexpr TotalRow kTotals[] = {
    {"packets", &wire::Totals::packets, "frames", "judged: passed + dropped"},
    {"bytes", &wire::Totals::bytes, "bytes", "of them, without FCS"},
    {"passed", &wire::Totals::passed, "frames", "that passed"},
    {"dropped", &wire::Totals::dropped, "frames", "that were dropped"},
    {"malformed", &wire::Totals::malformed, "frames", "whose headers are cut off or wrong"},
    {"not_ip", &wire::Totals::not_ip, "frames", "that are neither IPv4 nor IPv6"},
    {"incomplete", &wire::Totals::incomplete, "frames", "whose IPv6 extension headers were not walked to the end"},
    {"default_passed", &wire::Totals::default_passed, "frames", "of no list, passed by the default"},
    {"default_dropped", &wire::Totals::default_dropped, "frames", "of no list, dropped by the default"},
    {"bypassed", &wire::Totals::bypassed, "frames", "that passed because bypass was on"},
    {"no_snapshot_passed", &wire::Totals::no_snapshot_passed, "frames", "that passed before there was a snapshot"},
    {"no_snapshot_dropped", &wire::Totals::no_snapshot_dropped, "frames",
     "that were dropped before there was a snapshot"},
    {"tx_packets", &wire::Totals::tx_packets, "frames", "passed, and sent by a port"},
    {"tx_lost", &wire::Totals::tx_lost, "frames", "passed, but not taken by the output port"},
    {"capture_lost", &wire::Totals::capture_lost, "frames", "dropped, but not taken by the drop_port"},
    {"rx_missed", &wire::Totals::rx_missed, "frames", "that ports lost before a worker saw them"},
};
static_assert(std::size(kTotals) * sizeof(uint64_t) == sizeof(wire::Totals), "every counter has a row");

struct ListRow {
  const char* name;
  uint64_t wire::ListStats::*member;
  const char* unit;
  const char* meaning;
};
constexpr ListRow kListCounters[] = {
    {"matched", &wire::ListStats::matched, "frames", "that an entry of the list matches"},
    {"dropped", &wire::ListStats::dropped, "frames", "that the list dropped"},
    {"passed", &wire::ListStats::passed, "frames", "that the list let pass"},
    {"would_drop", &wire::ListStats::would_drop, "frames", "that the list would drop if it were enforced"},
    {"matched_bytes", &wire::ListStats::matched_bytes, "bytes", "of matched, without FCS"},
    {"dropped_bytes", &wire::ListStats::dropped_bytes, "bytes", "of dropped"},
    {"passed_bytes", &wire::ListStats::passed_bytes, "bytes", "of passed"},
    {"would_drop_bytes", &wire::ListStats::would_drop_bytes, "bytes", "of would_drop"},
    {"dropped_alone", &wire::ListStats::dropped_alone, "frames",
     "that it dropped and no other enforced drop list would have"},
    {"would_drop_alone", &wire::ListStats::would_drop_alone, "frames",
     "of would_drop that no enforced drop list drops"},
    {"dropped_alone_bytes", &wire::ListStats::dropped_alone_bytes, "bytes", "of dropped_alone"},
    {"would_drop_alone_bytes", &wire::ListStats::would_drop_alone_bytes, "bytes", "of would_drop_alone"},
};

}  // namespace

std::span<const TotalRow> totals_rows() {
  return kTotals;
}

void members(Fields& f, wire::Totals& totals) {
  for (const TotalRow& row : kTotals) f({row.name, row.unit, row.meaning}, totals.*row.member);
}

void members(Fields& f, wire::ListStats& list) {
  for (const ListRow& row : kListCounters) f({row.name, row.unit, row.meaning}, list.*row.member);
}

wire::ListStats& list_of(ListCounters& lists, const std::string& name) {
  for (auto& [known, counters] : lists) {
    if (known == name) return counters;
  }
  return lists.emplace_back(name, wire::ListStats{}).second;
}

void members(Fields& f, TargetStats& target) {
  f({"socket", "", "names the target"}, target.socket);
  f({"connected", "", "controld reaches it"}, target.connected);
  f({"fresh", "", "it told this just now; false: earlier"}, target.fresh);
  f({"start_time", "Unix seconds", "since when it counts; 0: never reached"}, target.start_time);
  f({"taken_us", "us", "of its monotonic clock, modulo 2^32, when it told this"}, target.taken_us);
  f.object({"generation", "", "that it enforces"}, target.generation, "generation");
  members(f, target.totals);
  f.by_name({"lists", "", "its lists; former ones as long as it counts them"}, target.lists, "list counters");
}

void members(Fields& f, StatsAnswer& answer) {
  members(f, answer.totals);
  f.object({"generation", "", "that controld runs"}, answer.generation, "generation");
  f.by_name({"lists", "", "sums over the targets; every configured list is there"}, answer.lists, "list counters");
  f.texts({"former", "", "names of those that the policy has no more"}, answer.former);
  f.array({"targets", "", "what each counted"}, answer.targets, "target counters");
  f.object({"capture", "", "as capture answers"}, answer.capture, "capture");
}

void add(wire::ListStats& sums, const wire::ListStats& counters) {
  for (const ListRow& row : kListCounters) sums.*row.member += counters.*row.member;
}

void add(StatsAnswer& answer, TargetStats target) {
  for (const TotalRow& row : kTotals) answer.totals.*row.member += target.totals.*row.member;
  for (const auto& [name, counters] : target.lists) add(list_of(answer.lists, name), counters);
  answer.targets.push_back(std::move(target));
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

// -------------------------------------------------------------------------------------------------------- telemetry

void members(Fields& f, wire::StageCost& cost) {
  f({"cycles", "TSC cycles", "in timed passes"}, cost.cycles);
  f({"packets", "frames", "in timed passes"}, cost.packets);
}

void members(Fields& f, WorkerHistograms& histograms) {
  f.buckets({"pass_cycles", "TSC cycles", "upper end and count: of each timed pass that had frames"},
            histograms.pass_cycles);
  f.buckets({"latency_cycles", "TSC cycles", "upper end and count: of each frame of a timed pass, from rx to tx"},
            histograms.latency_cycles);
}

void members(Fields& f, QueueTelemetry& queue) {
  f({"port", "", "its number"}, queue.port);
  f({"queue", "", "number of the receive queue of this port"}, queue.queue);
  f({"packets", "frames", "that it gave"}, queue.packets);
}

void members(Fields& f, SourceTelemetry& source) {
  f({"source", "", "an IPv4 address, or the /64 of an IPv6 one"}, source.source);
  f({"sampled", "frames", "of `sampled`, at least; less than they are by 1/17 of `sampled` at most"}, source.sampled);
}

void members(Fields& f, WorkerTelemetry& worker) {
  f({"worker", "", "its number"}, worker.worker);
  f({"lcore", "", "DPDK's number of its core"}, worker.lcore);
  f({"queues", "", "that it polls; 0: it has nothing to do"}, worker.queues);
  f({"idle_mode", "", "poll, pause, interrupt or sleep"}, worker.idle_mode);
  f({"sample_one_in", "passes", "of which one is timed; 0: none"}, worker.sample_one_in);
  f({"tsc_hz", "Hz", "of the time stamp counter"}, worker.tsc_hz);
  f({"taken_cycles", "TSC cycles", "the counter when this was told"}, worker.taken_cycles);
  f({"total_cycles", "TSC cycles", "since it began to poll"}, worker.total_cycles);
  f({"busy_cycles", "TSC cycles", "of these, in passes that had frames"}, worker.busy_cycles);
  f({"rests", "", "times it paused or slept"}, worker.rests);
  f({"packets", "frames", "judged"}, worker.packets);
  f({"bytes", "bytes", "of them, without FCS"}, worker.bytes);
  f({"passed", "frames", "that passed"}, worker.passed);
  f({"dropped", "frames", "that were dropped"}, worker.dropped);
  f.by_name({"stages", "", "rx, parse, lookup, verdict, tx"}, worker.stages, "stage");
  f.numbers({"burst_sizes", "polls", "of a queue that gave 0, 1, ... 64 frames"}, worker.burst_sizes);
  f.array({"queue_packets", "", "of each queue that it polls; the first 256"}, worker.queue_packets, "queue");
  f({"sampled", "frames", "of timed passes whose source was looked at; they count half as much every 4 s"},
    worker.sampled);
  f.array({"sources", "", "that sent most of the sampled frames, 16 of either family at most"}, worker.sources,
          "source");
  f.object({"histograms", "", "of the timed passes"}, worker.histograms, "histograms");
}

void members(Fields& f, PortTelemetry& port) {
  f({"port", "", "its number"}, port.port);
  f({"name", "", "DPDK's, or of the interface"}, port.name);
  f({"driver", "", "DPDK's; of XDP native, generic, or empty: not attached"}, port.driver);
  f({"link_up", "", "of XDP: attached"}, port.link_up);
  f({"speed_mbps", "Mbit/s", "0: not known"}, port.speed_mbps);
  f({"taken_us", "us", "of a monotonic clock, when this was told"}, port.taken_us);
  f({"rx_packets", "frames", "received"}, port.rx_packets);
  f({"rx_bytes", "bytes", "received"}, port.rx_bytes);
  f({"tx_packets", "frames", "sent"}, port.tx_packets);
  f({"tx_bytes", "bytes", "sent"}, port.tx_bytes);
  f({"rx_missed", "frames", "the ring was full"}, port.rx_missed);
  f({"rx_errors", "frames", "received with errors"}, port.rx_errors);
  f({"tx_errors", "frames", "not sent for errors"}, port.tx_errors);
  f({"rx_nombuf", "frames", "no mbuf was free"}, port.rx_nombuf);
}

void members(Fields& f, TargetMeasures& target) {
  members(f, target.stats);
  f({"last_error", "", "why it is away, or did not take the last publication; empty: well"}, target.last_error);
  f.array({"workers", "", "empty: XDP, or never told"}, target.workers, "worker");
  f.array({"ports", "", "of XDP its interfaces"}, target.ports, "port");
}

void members(Fields& f, TelemetryAnswer& answer) {
  f({"version", "", "of controld"}, answer.version);
  f.object({"generation", "", "that controld runs"}, answer.generation, "generation");
  f.texts({"former", "", "names of lists that targets count still, and the policy has no more"}, answer.former);
  f.array({"targets", "", "what each measures"}, answer.targets, "target measures");
}

namespace {

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
