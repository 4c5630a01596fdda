#include "control/ctl/top_interval.h"

#include <algorithm>
#include <map>

#include "common/histogram.h"

namespace weir::control::ctl {

void members(Fields& f, Percentiles& percentiles) {
  f.or_null({"p50", "us", "half of them took no longer"}, percentiles.p50);
  f.or_null({"p99", "us", "99 of 100 took no longer"}, percentiles.p99);
  f.or_null({"p999", "us", "999 of 1000 took no longer"}, percentiles.p999);
  f.or_null({"max", "us", "the longest"}, percentiles.max);
}

void members(Fields& f, CyclesPerPacket& cycles) {
  f.or_null({"rx", "TSC cycles", "a frame, to receive"}, cycles.rx);
  f.or_null({"parse", "TSC cycles", "a frame, to parse"}, cycles.parse);
  f.or_null({"lookup", "TSC cycles", "a frame: keys, filter, exact stage"}, cycles.lookup);
  f.or_null({"verdict", "TSC cycles", "a frame, to judge"}, cycles.verdict);
  f.or_null({"tx", "TSC cycles", "a frame, to send"}, cycles.tx);
  f.or_null({"total", "TSC cycles", "their sum"}, cycles.total);
}

void members(Fields& f, QueueInterval& queue) {
  f({"port", "", "its number"}, queue.port);
  f({"queue", "", "number of the receive queue of this port"}, queue.queue);
  f({"packets", "frames", "that it gave in the interval"}, queue.packets);
  f.or_null({"share", "share", "of what all queues of the worker gave, 0 to 1"}, queue.share);
}

void members(Fields& f, SourceInterval& source) {
  f({"source", "", "an IPv4 address, or the /64 of an IPv6 one"}, source.source);
  f({"share", "share", "of the target's frames of the last seconds, 0 to 1: sampled, and at most 1/17 too low"},
    source.share);
}

void members(Fields& f, WorkerInterval& worker) {
  f({"worker", "", "its number"}, worker.worker);
  f({"lcore", "", "DPDK's number of its core"}, worker.lcore);
  f({"queues", "", "that it polls; 0: it has nothing to do"}, worker.queues);
  f({"idle_mode", "", "poll, pause, interrupt or sleep"}, worker.idle_mode);
  f({"sample_one_in", "passes", "of which one is timed; 0: none"}, worker.sample_one_in);
  f({"seconds", "s", "by the worker's clock"}, worker.seconds);
  f({"tsc_hz", "Hz", "of the time stamp counter"}, worker.tsc_hz);
  f.or_null({"busy", "share", "of the time in passes that had frames, 0 to 1"}, worker.busy);
  f({"rests_per_s", "1/s", "pauses or sleeps"}, worker.rests_per_s);
  f({"packets", "frames", "judged"}, worker.packets);
  f({"mpps", "million frames/s", "judged"}, worker.mpps);
  f({"gbps", "Gbit/s", "of frames, without FCS"}, worker.gbps);
  f({"passed_mpps", "million frames/s", "that passed"}, worker.passed_mpps);
  f({"dropped_mpps", "million frames/s", "that were dropped"}, worker.dropped_mpps);
  f.or_null({"empty_polls", "share", "of the polls of a queue that gave nothing"}, worker.empty_polls);
  f.or_null({"average_burst", "frames", "of a poll that gave some"}, worker.average_burst);
  f.object({"cycles_per_packet", "", "of the timed passes"}, worker.cycles_per_packet, "cycles per packet");
  f.object({"latency_us", "", "of frames, from rx to tx"}, worker.latency_us, "percentiles");
  f.object({"pass_us", "", "of passes that had frames"}, worker.pass_us, "percentiles");
  f.numbers({"burst_sizes", "polls", "of a queue that gave 0, 1, ... 64 frames"}, worker.burst_sizes);
  f.array({"queue_packets", "", "of each queue that it polls; the first 256"}, worker.queue_packets,
          "queue in an interval");
  f.object({"histograms", "", "of the timed passes; buckets without a count left out"}, worker.histograms,
           "histograms");
}

void members(Fields& f, PortInterval& port) {
  f({"port", "", "its number"}, port.port);
  f({"name", "", "DPDK's, or of the interface"}, port.name);
  f({"driver", "", "DPDK's; of XDP native, generic, or empty: not attached"}, port.driver);
  f({"link_up", "", "of XDP: attached"}, port.link_up);
  f({"speed_mbps", "Mbit/s", "0: not known"}, port.speed_mbps);
  f({"seconds", "s", "between the two looks at the port"}, port.seconds);
  f({"rx_mpps", "million frames/s", "received"}, port.rx_mpps);
  f({"tx_mpps", "million frames/s", "sent"}, port.tx_mpps);
  f({"rx_gbps", "Gbit/s", "received"}, port.rx_gbps);
  f({"tx_gbps", "Gbit/s", "sent"}, port.tx_gbps);
  f({"rx_missed", "frames", "the ring was full"}, port.rx_missed);
  f({"rx_errors", "frames", "received with errors"}, port.rx_errors);
  f({"tx_errors", "frames", "not sent for errors"}, port.tx_errors);
  f({"rx_nombuf", "frames", "no mbuf was free"}, port.rx_nombuf);
}

void members(Fields& f, ListInterval& list) {
  f({"name", "", "of the list"}, list.name);
  f({"matched_pps", "frames/s", "that an entry of the list matches"}, list.matched_pps);
  f({"dropped_pps", "frames/s", "that the list dropped"}, list.dropped_pps);
  f({"passed_pps", "frames/s", "that the list let pass"}, list.passed_pps);
  f({"would_drop_pps", "frames/s", "that the list would drop if it were enforced"}, list.would_drop_pps);
  f({"former", "", "the policy has no such list any more"}, list.former);
}

void members(Fields& f, TargetInterval::Measured& measured) {
  f({"seconds", "s", "between the two answers, by the target's clock"}, measured.seconds);
  f({"mpps", "million frames/s", "judged"}, measured.mpps);
  f({"gbps", "Gbit/s", "of frames, without FCS"}, measured.gbps);
  f({"passed_mpps", "million frames/s", "that passed"}, measured.passed_mpps);
  f({"dropped_mpps", "million frames/s", "that were dropped"}, measured.dropped_mpps);
  f({"packets", "frames", "judged in the interval"}, measured.packets);
  f({"passed", "frames", "that passed in the interval"}, measured.passed);
  f({"dropped", "frames", "that were dropped in the interval"}, measured.dropped);
  f({"tx_lost", "frames", "passed, but not taken by the output port"}, measured.tx_lost);
  f({"rx_missed", "frames", "that ports lost before a worker saw them"}, measured.rx_missed);
  f.array({"lists", "", "those that drop most first"}, measured.lists, "list in an interval");
  f.array({"sources", "", "that sent 1 % or more; those that sent most first; empty: too few frames to say"},
          measured.sources, "source in an interval");
  f.array({"workers", "", "of XDP none"}, measured.workers, "worker in an interval");
  f.array({"ports", "", "of XDP its interfaces"}, measured.ports, "port in an interval");
}

void members(Fields& f, TargetInterval& target) {
  f({"socket", "", "names the target"}, target.socket);
  f({"state", "", "measured; else there is no interval: away, silent (did not answer in time), new, restarted"},
    target.state);
  f({"last_error", "", "why it is away, or did not take the last publication; empty: well"}, target.last_error);
  f.object({"generation", "", "that it enforces"}, target.generation, "generation");
  f.group("seconds", target.measured);
}

void members(Fields& f, Interval& interval) {
  f({"version", "", "of controld"}, interval.version);
  f.object({"generation", "", "that controld runs"}, interval.generation, "generation");
  f.array({"targets", "", "what each did"}, interval.targets, "target in an interval");
}

namespace {

double per(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

// A second has a million microseconds: counts per microsecond are millions per second.
double mega(uint64_t count, double seconds) {
  return per(static_cast<double>(count), seconds) / 1e6;
}

double gigabits(uint64_t bytes, double seconds) {
  return per(static_cast<double>(bytes) * 8, seconds) / 1e9;
}

// Empty: of nothing.
std::optional<double> ratio(uint64_t part, uint64_t whole) {
  if (whole == 0) return std::nullopt;
  return static_cast<double>(part) / static_cast<double>(whole);
}

// One counter of the same struct in both answers.
template <class T, class Integer>
auto added(const T& before, const T& after, Integer T::*counter) {
  return after.*counter - before.*counter;
}

std::vector<Bucket> added_buckets(const std::vector<Bucket>& before, const std::vector<Bucket>& after) {
  std::map<uint64_t, uint64_t> known;
  for (const Bucket& bucket : before) known[bucket.upper] = bucket.count;
  std::vector<Bucket> added;
  for (const Bucket& bucket : after) {
    const uint64_t count = bucket.count - known[bucket.upper];
    if (count != 0) added.push_back({bucket.upper, count});
  }
  return added;
}

Percentiles percentiles_us(const std::vector<Bucket>& buckets, uint64_t tsc_hz) {
  if (buckets.empty()) return {};
  const auto us = [&](uint64_t cycles) { return static_cast<double>(cycles) * 1e6 / static_cast<double>(tsc_hz); };
  return {us(percentile(buckets, 0.5)), us(percentile(buckets, 0.99)), us(percentile(buckets, 0.999)),
          us(largest(buckets))};
}

struct StageRow {
  const char* name;
  std::optional<double> CyclesPerPacket::*member;
};
constexpr StageRow kStages[] = {{"rx", &CyclesPerPacket::rx},
                                {"parse", &CyclesPerPacket::parse},
                                {"lookup", &CyclesPerPacket::lookup},
                                {"verdict", &CyclesPerPacket::verdict},
                                {"tx", &CyclesPerPacket::tx}};

const wire::StageCost* stage_of(const WorkerTelemetry& worker, std::string_view name) {
  const auto found =
      std::find_if(worker.stages.begin(), worker.stages.end(), [&](const auto& s) { return s.first == name; });
  return found == worker.stages.end() ? nullptr : &found->second;
}

CyclesPerPacket cycles_per_packet(const WorkerTelemetry& before, const WorkerTelemetry& after) {
  CyclesPerPacket all;
  double total = 0;
  bool known = true;
  for (const StageRow& row : kStages) {
    const wire::StageCost *was = stage_of(before, row.name), *now = stage_of(after, row.name);
    std::optional<double>& cycles = all.*row.member;
    if (was != nullptr && now != nullptr) cycles = ratio(now->cycles - was->cycles, now->packets - was->packets);
    known = known && cycles;
    total += cycles.value_or(0);
  }
  if (known) all.total = total;
  return all;
}

struct Bursts {
  std::vector<uint64_t> sizes;
  uint64_t polls = 0, bursts = 0, packets = 0;
};

Bursts added_bursts(const std::vector<uint64_t>& before, const std::vector<uint64_t>& after) {
  Bursts bursts;
  for (size_t n = 0; n < after.size(); n++) {
    const uint64_t count = after[n] - (n < before.size() ? before[n] : 0);
    bursts.sizes.push_back(count);
    bursts.polls += count;
    bursts.bursts += n > 0 ? count : 0;
    bursts.packets += n * count;
  }
  return bursts;
}

std::vector<QueueInterval> added_queues(const std::vector<QueueTelemetry>& before,
                                        const std::vector<QueueTelemetry>& after) {
  std::vector<QueueInterval> queues;
  uint64_t all = 0;
  for (size_t i = 0; i < after.size(); i++) {  // a worker polls the same queues as long as it lives
    const uint64_t packets = after[i].packets - (i < before.size() ? before[i].packets : 0);
    queues.push_back({after[i].port, after[i].queue, packets, {}});
    all += packets;
  }
  for (QueueInterval& queue : queues) queue.share = ratio(queue.packets, all);
  return queues;
}

WorkerInterval between(const WorkerTelemetry& before, const WorkerTelemetry& after) {
  const auto more = [&](auto counter) { return added(before, after, counter); };
  const double seconds = static_cast<double>(more(&WorkerTelemetry::taken_cycles)) / static_cast<double>(after.tsc_hz);
  const Bursts bursts = added_bursts(before.burst_sizes, after.burst_sizes);
  WorkerInterval worker;
  worker.worker = after.worker;
  worker.lcore = after.lcore;
  worker.queues = after.queues;
  worker.idle_mode = after.idle_mode;
  worker.sample_one_in = after.sample_one_in;
  worker.seconds = seconds;
  worker.tsc_hz = after.tsc_hz;
  worker.busy = ratio(more(&WorkerTelemetry::busy_cycles), more(&WorkerTelemetry::total_cycles));
  worker.rests_per_s = per(static_cast<double>(more(&WorkerTelemetry::rests)), seconds);
  worker.packets = more(&WorkerTelemetry::packets);
  worker.mpps = mega(worker.packets, seconds);
  worker.gbps = gigabits(more(&WorkerTelemetry::bytes), seconds);
  worker.passed_mpps = mega(more(&WorkerTelemetry::passed), seconds);
  worker.dropped_mpps = mega(more(&WorkerTelemetry::dropped), seconds);
  worker.empty_polls = ratio(bursts.polls - bursts.bursts, bursts.polls);
  worker.average_burst = ratio(bursts.packets, bursts.bursts);
  worker.cycles_per_packet = cycles_per_packet(before, after);
  worker.histograms = {added_buckets(before.histograms.pass_cycles, after.histograms.pass_cycles),
                       added_buckets(before.histograms.latency_cycles, after.histograms.latency_cycles)};
  worker.latency_us = percentiles_us(worker.histograms.latency_cycles, after.tsc_hz);
  worker.pass_us = percentiles_us(worker.histograms.pass_cycles, after.tsc_hz);
  worker.burst_sizes = bursts.sizes;
  worker.queue_packets = added_queues(before.queue_packets, after.queue_packets);
  return worker;
}

PortInterval between(const PortTelemetry& before, const PortTelemetry& after) {
  const auto more = [&](auto counter) { return added(before, after, counter); };
  const double seconds = static_cast<double>(more(&PortTelemetry::taken_us)) / 1e6;
  PortInterval port;
  port.port = after.port;
  port.name = after.name;
  port.driver = after.driver;
  port.link_up = after.link_up;
  port.speed_mbps = after.speed_mbps;
  port.seconds = seconds;
  port.rx_mpps = mega(more(&PortTelemetry::rx_packets), seconds);
  port.tx_mpps = mega(more(&PortTelemetry::tx_packets), seconds);
  port.rx_gbps = gigabits(more(&PortTelemetry::rx_bytes), seconds);
  port.tx_gbps = gigabits(more(&PortTelemetry::tx_bytes), seconds);
  port.rx_missed = more(&PortTelemetry::rx_missed);
  port.rx_errors = more(&PortTelemetry::rx_errors);
  port.tx_errors = more(&PortTelemetry::tx_errors);
  port.rx_nombuf = more(&PortTelemetry::rx_nombuf);
  return port;
}

std::vector<ListInterval> between(const ListCounters& before, const ListCounters& after, double seconds,
                                  const std::vector<std::string>& former) {
  std::vector<ListInterval> lists;
  for (const auto& [name, now] : after) {
    const auto is_it = [&, &wanted = name](const auto& list) { return list.first == wanted; };
    const auto found = std::find_if(before.begin(), before.end(), is_it);
    const wire::ListStats was = found == before.end() ? wire::ListStats{} : found->second;
    const auto rate = [&, &counters = now](uint64_t wire::ListStats::*counter) {
      return per(static_cast<double>(added(was, counters, counter)), seconds);
    };
    lists.push_back({name, rate(&wire::ListStats::matched), rate(&wire::ListStats::dropped),
                     rate(&wire::ListStats::passed), rate(&wire::ListStats::would_drop),
                     std::find(former.begin(), former.end(), name) != former.end()});
  }
  std::stable_sort(lists.begin(), lists.end(),
                   [](const ListInterval& a, const ListInterval& b) { return a.dropped_pps > b.dropped_pps; });
  return lists;
}

// Intervals of those that both answers have; key: a member that names them.
template <class Made, class T>
std::vector<Made> each_between(const std::vector<T>& before, const std::vector<T>& after, uint32_t T::*key) {
  std::vector<Made> all;
  for (const T& now : after) {
    const auto was = std::find_if(before.begin(), before.end(), [&](const T& other) { return other.*key == now.*key; });
    if (was != before.end()) all.push_back(between(*was, now));
  }
  return all;
}

// What each worker sampled counts as much as the frames that it judged in the interval.
std::vector<SourceInterval> sources_of(const std::vector<WorkerTelemetry>& workers,
                                       const std::vector<WorkerInterval>& intervals) {
  constexpr double kFewest = 32;  // sampled frames to judge by
  constexpr double kLeast = 0.01;
  std::map<std::string, double> frames;
  double sampled = 0, all = 0;
  for (const WorkerTelemetry& worker : workers) {
    const auto interval = std::find_if(intervals.begin(), intervals.end(),
                                       [&](const WorkerInterval& other) { return other.worker == worker.worker; });
    if (interval == intervals.end() || interval->packets == 0 || worker.sampled <= 0) continue;
    const auto packets = static_cast<double>(interval->packets);
    for (const SourceTelemetry& source : worker.sources) {
      frames[source.source] += packets * std::min(1.0, source.sampled / worker.sampled);
    }
    sampled += worker.sampled;
    all += packets;
  }
  std::vector<SourceInterval> sources;
  if (sampled < kFewest) return sources;
  for (const auto& [source, n] : frames) {
    if (n >= kLeast * all) sources.push_back({source, n / all});
  }
  std::stable_sort(sources.begin(), sources.end(),
                   [](const SourceInterval& a, const SourceInterval& b) { return a.share > b.share; });
  return sources;
}

const char* state_of(const TargetStats* before, const TargetStats& after) {
  if (!after.connected) return "away";
  if (!after.fresh) return "silent";
  if (before == nullptr || !before->fresh) return "new";
  const bool again = before->start_time != after.start_time || before->totals.packets > after.totals.packets;
  return again ? "restarted" : "measured";
}

TargetInterval::Measured between(const TargetMeasures& before, const TargetMeasures& after,
                                 const std::vector<std::string>& former) {
  const wire::Totals &was = before.stats.totals, &now = after.stats.totals;
  const uint32_t us = after.stats.taken_us - before.stats.taken_us;  // modulo 2^32, as told
  TargetInterval::Measured measured;
  measured.seconds = us / 1e6;
  measured.packets = now.packets - was.packets;
  measured.passed = now.passed - was.passed;
  measured.dropped = now.dropped - was.dropped;
  measured.tx_lost = now.tx_lost - was.tx_lost;
  measured.rx_missed = now.rx_missed - was.rx_missed;
  measured.mpps = mega(measured.packets, measured.seconds);
  measured.gbps = gigabits(now.bytes - was.bytes, measured.seconds);
  measured.passed_mpps = mega(measured.passed, measured.seconds);
  measured.dropped_mpps = mega(measured.dropped, measured.seconds);
  measured.lists = between(before.stats.lists, after.stats.lists, measured.seconds, former);
  measured.workers = each_between<WorkerInterval>(before.workers, after.workers, &WorkerTelemetry::worker);
  measured.sources = sources_of(after.workers, measured.workers);
  measured.ports = each_between<PortInterval>(before.ports, after.ports, &PortTelemetry::port);
  return measured;
}

TargetInterval interval_of(const TargetMeasures* before, const TargetMeasures& after,
                           const std::vector<std::string>& former) {
  TargetInterval target;
  target.socket = after.stats.socket;
  target.state = state_of(before == nullptr ? nullptr : &before->stats, after.stats);
  target.last_error = after.last_error;
  target.generation = after.stats.generation;
  if (target.state == "measured") target.measured = between(*before, after, former);
  return target;
}

}  // namespace

Interval interval_between(const TelemetryAnswer& before, const TelemetryAnswer& after) {
  Interval interval;
  interval.version = after.version;
  interval.generation = after.generation;
  for (const TargetMeasures& now : after.targets) {
    const auto was = std::find_if(before.targets.begin(), before.targets.end(),
                                  [&](const TargetMeasures& other) { return other.stats.socket == now.stats.socket; });
    interval.targets.push_back(interval_of(was == before.targets.end() ? nullptr : &*was, now, after.former));
  }
  return interval;
}

}  // namespace weir::control::ctl
