#include "control/tell/answer/telemetry.h"

namespace weir::control {

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

}  // namespace weir::control
