#pragma once

#include <bit>

#include "dataplane/burst/flight.h"
#include "dataplane/burst/gate_watch.h"
#include "dataplane/burst/gauges.h"
#include "dataplane/burst/stages.h"

namespace weir::dataplane {

// A packet's way from parse to where it leaves: the stages in their order. What the gates decide leaves at once; the
// rest waits in the flight, and leaves in its order.
//
// Per flow, order is kept: a gate looks at addresses only, so all packets of a flow wait or none does, and when another
// snapshot begins to judge, or gates are asked again, all that wait leave first.
//
// Out: who takes the frames.
//   judged(burst, frames, snapshot, route)          the verdicts of these slots are in burst.drop; before they leave
//   leave(route, rx_cycles, frames, n, drop, watch) takes n frames, each exactly once; bit i of drop: frame i is
//   dropped
// Watch: StageWatch, or NoWatch in the passes that are not timed.
template <class Out>
class Passage {
 public:
  Passage(Out& out, const filter::Kernels& kernels, WorkerCounters& counters)
      : out_(out), kernels_(kernels), counters_(counters), flight_(kernels) {}

  bool empty() const noexcept { return flight_.empty(); }
  // Where frames are received, behind those that wait: at most room_for(wants).
  Burst& open() noexcept { return flight_.open(); }

  // This snapshot judges from here on. True: another one did before.
  template <class Watch>
  bool judge_by(const WorkerSnapshot& snapshot, Watch& watch) noexcept;
  // Takes what was received into open() from slot `first` on, at least one frame.
  template <class Watch>
  void take(const Route& route, uint64_t rx_cycles, uint32_t first, Watch& watch) noexcept;
  // All that waits leaves.
  template <class Watch>
  void finish(Watch& watch) noexcept;

 private:
  template <class Watch>
  void finish_done(Watch& watch) noexcept;
  template <class Watch>
  void leave_group(Burst& burst, Watch& watch) noexcept;

  Out& out_;
  const filter::Kernels& kernels_;
  WorkerCounters& counters_;
  Flight flight_;
  GateWatch gate_watch_;
  const WorkerSnapshot* snapshot_ = nullptr;  // that the open group is judged by
};

// The frames that leave at once and are dropped, by their place among those that leave.
inline uint64_t drops_of_leaving(const Burst& burst, uint32_t first, uint64_t waiting) noexcept {
  if (burst.drop == 0 || waiting == 0) return burst.drop >> first;
  uint64_t drops = 0;
  uint32_t place = 0;
  for (uint32_t i = first; i < burst.n; i++) {
    drops |= (burst.drop >> i & 1) << place;
    place += (waiting >> i & 1) == 0;
  }
  return drops;
}

template <class Out>
template <class Watch>
bool Passage<Out>::judge_by(const WorkerSnapshot& snapshot, Watch& watch) noexcept {
  const bool is_other = &snapshot != snapshot_;
  if (!is_other && !gate_watch_.should_ask_again()) return false;
  finish(watch);
  gate_watch_.ask_again();
  snapshot_ = &snapshot;
  return is_other;
}

template <class Out>
template <class Watch>
void Passage<Out>::take(const Route& route, uint64_t rx_cycles, uint32_t first, Watch& watch) noexcept {
  Burst& burst = flight_.open();
  const uint32_t n = burst.n - first;
  const uint64_t bytes = parse(snapshot_->wants, first, burst, counters_);
  watch.lap(wire::Stage::parse, n);

  const auto [waiting, waiting_bytes] =
      gate_watch_.asks() ? gate(*snapshot_, kernels_, first, burst) : go_around_gates(first, burst);
  gate_watch_.saw(n, static_cast<uint32_t>(std::popcount(waiting)));
  watch.lap(wire::Stage::lookup, 0);
  const uint64_t received = low_bits(burst.n) & ~low_bits(first);
  uint32_t n_leaving = 0;
  if (waiting != received) {
    verdict_at_once(*snapshot_, received & ~waiting, bytes - waiting_bytes, burst, counters_);
    out_.judged(burst, received & ~waiting, *snapshot_, route);
    const uint64_t drop = drops_of_leaving(burst, first, waiting);
    rte_mbuf* room[kLeavingRoom];
    const Leaving leaving = take_out(first, waiting, burst, room);
    n_leaving = leaving.n;
    watch.lap(wire::Stage::verdict, n_leaving);
    out_.leave(route, rx_cycles, leaving.frames, n_leaving, drop, watch);
  }
  if (waiting != 0) burst.turn[burst.turns++] = {&route, rx_cycles, burst.n};

  if (burst.n != 0 && flight_.is_due(room_for(snapshot_->wants, burst))) {
    if (flight_.full()) flight_.drain(), finish_done(watch);
    look_up(*snapshot_, kernels_, flight_);  // keys, probe, match
  } else {
    flight_.tick();
  }
  watch.lap(wire::Stage::lookup, n - n_leaving);
  finish_done(watch);
}

// The groups whose lookups are finished, in their order.
template <class Out>
template <class Watch>
void Passage<Out>::finish_done(Watch& watch) noexcept {
  while (Burst* done = flight_.pop()) {
    verdict(*done->snapshot, *done, counters_);
    gate_watch_.judged(done->n, static_cast<uint32_t>(std::popcount(done->hit & low_bits(done->n))));
    watch.lap(wire::Stage::verdict, done->n);
    leave_group(*done, watch);
    clear(*done);
    flight_.release(*done);
  }
}

template <class Out>
template <class Watch>
void Passage<Out>::finish(Watch& watch) noexcept {
  if (flight_.empty()) return;
  if (flight_.open().n != 0) {
    if (flight_.full()) flight_.drain(), finish_done(watch);
    look_up(*snapshot_, kernels_, flight_);
  }
  flight_.drain();
  watch.lap(wire::Stage::lookup, 0);
  finish_done(watch);
}

// The frames that waited, to where those of their turns go; turns that are not timed leave together.
template <class Out>
template <class Watch>
void Passage<Out>::leave_group(Burst& burst, Watch& watch) noexcept {
  uint32_t begin = 0;
  for (uint32_t t = 0; t < burst.turns; t++) {
    const Turn& turn = burst.turn[t];
    const Turn* next = t + 1 < burst.turns ? &burst.turn[t + 1] : nullptr;
    if (next != nullptr && next->route == turn.route && (turn.rx_cycles | next->rx_cycles) == 0) continue;
    const uint64_t frames = low_bits(turn.end) & ~low_bits(begin);
    out_.judged(burst, frames, *burst.snapshot, *turn.route);
    out_.leave(*turn.route, turn.rx_cycles, burst.pkt + begin, turn.end - begin, (burst.drop & frames) >> begin, watch);
    begin = turn.end;
  }
}

}  // namespace weir::dataplane
