#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/burst/gate_watch.h"
#include "dataplane/burst/gauges.h"
#include "dataplane/burst/stages.h"
#include "dataplane/burst/suspects.h"

namespace weir::dataplane {

// A reception of so many frames, or of as many as are asked for, is taken as a sign that more are there.
constexpr uint32_t kBacklog = 32;

// The frames of a pass that leave by one route: they are sent, or dropped, together.
struct Leaving {
  uint32_t n_passed = 0, n_dropped = 0;
  rte_mbuf* passed[kMaxBurst + filter::kPackRoom];
  rte_mbuf* dropped[kMaxBurst + filter::kPackRoom];
};

// A packet's way through a worker, in its order: receive, parse, ask the gates, send what is decided, look up suspects,
// match, verdict, send. poll() is a look at one queue.
//
// Memory is waited for twice, and never idly. The lines of a full reception's gates arrive while the next one is
// received; it is decided behind that. Suspects are looked up in groups, while frames are received, parsed, and leave.
//
// Per flow, order is kept. A gate looks at addresses only, so all packets of a flow are suspects or none is. Receptions
// are decided in their order, and groups leave in theirs. Before another snapshot judges, or gates are asked again, all
// that wait leave.
//
// Io: the ports, and who looks on.
//   uint32_t receive(const Route&, uint32_t most, rte_mbuf** frames)   how many came
//   void judged(Burst&, uint64_t frames, const Route&)                 the verdicts of these are in burst.drop
//   void send(const Route&, rte_mbuf** frames, uint32_t n)             these passed; takes each exactly once
//   void discard(const Route&, rte_mbuf** frames, uint32_t n)          these drop; likewise
//   void timed(const Burst&, uint64_t frames)                          frames of a timed pass, before they leave
//   void timed_left(uint64_t rx_cycles, uint32_t n)                    and after they left
// Watch: StageWatch, or NoWatch in the passes that are not timed.
template <class Io>
class Loop {
 public:
  // routes: that poll() is called with; they stay where they are.
  Loop(Io& io, std::span<const Route> routes, const filter::Kernels& kernels, WorkerCounters& counters)
      : io_(io), routes_(routes), kernels_(kernels), counters_(counters), suspects_(kernels), leaving_(routes.size()) {}

  // No frame waits, and so no reference into a snapshot is held.
  bool empty() const noexcept { return undecided_.burst == nullptr && suspects_.empty(); }
  // True: there were frames, which this snapshot judges.
  template <class Watch>
  bool poll(const Route& route, const WorkerSnapshot& snapshot, uint64_t now_unix_s, Watch& watch) noexcept;
  // poll() for frames that no snapshot judges. reason: its counter.
  template <class Watch>
  bool poll_unjudged(const Route& route, bool pass, Counter& reason, Watch& watch) noexcept;
  // All that wait leave.
  template <class Watch>
  void finish(Watch& watch) noexcept;

 private:
  // A reception whose gates are not asked yet.
  struct Undecided {
    Burst* burst = nullptr;
    const Route* route = nullptr;
    uint64_t rx_cycles = 0;  // the TSC before it was asked for; 0: its pass is not timed
  };

  template <class Watch>
  uint32_t receive(const Route& route, uint32_t most, Burst& burst, Watch& watch) noexcept;
  template <class Watch>
  void judge_by(const WorkerSnapshot& snapshot, Watch& watch) noexcept;
  template <class Watch>
  void decide(Watch& watch) noexcept;
  template <class Watch>
  void look_up_suspects(Watch& watch) noexcept;
  template <class Watch>
  void leave_finished(Watch& watch) noexcept;
  template <class Watch>
  void leave(Burst& burst, uint64_t frames, const Route& route, uint64_t rx_cycles, Watch& watch) noexcept;
  void flush(const Route& route, Leaving& leaving) noexcept;
  template <class Watch>
  void flush(Watch& watch) noexcept;

  Io& io_;
  const std::span<const Route> routes_;
  const filter::Kernels& kernels_;
  WorkerCounters& counters_;
  const WorkerSnapshot* snapshot_ = nullptr;  // that judges
  GateWatch gate_watch_;
  const std::unique_ptr<Burst[]> receptions_{new Burst[2]};  // one may be undecided while the next one comes
  Undecided undecided_;
  Suspects suspects_;
  std::vector<Leaving> leaving_;  // by route
};

template <class Io>
template <class Watch>
bool Loop<Io>::poll(const Route& route, const WorkerSnapshot& snapshot, uint64_t now_unix_s, Watch& watch) noexcept {
  judge_by(snapshot, watch);
  Burst& burst = receptions_[undecided_.burst == &receptions_[0] ? 1 : 0];
  const uint32_t most = most_received(snapshot.wants);
  const uint64_t rx_cycles = watch.last();
  const uint32_t n = receive(route, most, burst, watch);
  if (n == 0) return false;
  burst.now_unix_s = now_unix_s;
  burst.snapshot = &snapshot;
  const AskedTables gates = gate_watch_.asks() ? asked_tables(snapshot) : AskedTables();
  parse(snapshot.wants, gates, burst, counters_);
  watch.lap(wire::Stage::parse, n);

  if (undecided_.burst != nullptr) decide(watch);
  undecided_ = {&burst, &route, rx_cycles};
  const bool is_next_near = n >= std::min(most, kBacklog);
  if (!is_next_near || gates.empty()) decide(watch);
  flush(watch);
  return true;
}

// Fills the burst anew. Returns how many frames came.
template <class Io>
template <class Watch>
uint32_t Loop<Io>::receive(const Route& route, uint32_t most, Burst& burst, Watch& watch) noexcept {
  const uint32_t n = io_.receive(route, most, burst.pkt);
  watch.lap(wire::Stage::rx, n);
  if (n == 0) return 0;
  clear(burst);
  return burst.n = n;
}

template <class Io>
template <class Watch>
void Loop<Io>::judge_by(const WorkerSnapshot& snapshot, Watch& watch) noexcept {
  if (&snapshot == snapshot_ && !gate_watch_.should_ask_again()) return;
  finish(watch);
  gate_watch_.ask_again();
  snapshot_ = &snapshot;
}

template <class Io>
template <class Watch>
void Loop<Io>::decide(Watch& watch) noexcept {
  const auto [burst, route, rx_cycles] = std::exchange(undecided_, {});
  const uint64_t suspects = gate_watch_.asks() ? ask_gates(*snapshot_, kernels_, *burst) : suspect_all(*burst);
  const auto n_suspects = static_cast<uint32_t>(std::popcount(suspects));
  const uint32_t n = burst->n;
  gate_watch_.saw(n, n_suspects);
  watch.lap(wire::Stage::lookup, 0);

  uint64_t bytes = burst->total_bytes;
  if (suspects != 0) {
    if (!suspects_.has_room_for(*burst, n_suspects)) look_up_suspects(watch);
    bytes -= suspects_.append(*burst, suspects, *route, rx_cycles);
    watch.lap(wire::Stage::lookup, n_suspects);
  }
  if (const uint64_t decided = low_bits(n) & ~suspects; decided != 0) {
    verdict(*burst, decided, bytes, counters_);
    leave(*burst, decided, *route, rx_cycles, watch);
  }
  if (suspects_.are_due()) {
    look_up_suspects(watch);
  } else {
    suspects_.go_on();
  }
  watch.lap(wire::Stage::lookup, 0);
  leave_finished(watch);
}

template <class Io>
template <class Watch>
void Loop<Io>::look_up_suspects(Watch& watch) noexcept {
  if (suspects_.full()) {
    suspects_.drain();
    leave_finished(watch);
  }
  suspects_.look_up(*snapshot_);
}

// The groups whose lookups are finished, in their order.
template <class Io>
template <class Watch>
void Loop<Io>::leave_finished(Watch& watch) noexcept {
  while (SuspectGroup* group = suspects_.finished()) {
    const uint64_t frames = low_bits(group->n);
    verdict(*group, frames, group->total_bytes, counters_);
    gate_watch_.judged(group->n, static_cast<uint32_t>(std::popcount(group->hit & frames)));
    uint32_t begin = 0;
    for (uint32_t r = 0; r < group->receptions; r++) {
      const WaitingFrames &waiting = group->waiting[r], &next = group->waiting[std::min(r + 1, group->receptions - 1)];
      const bool leaves_with_next =
          r + 1 < group->receptions && next.route == waiting.route && (waiting.rx_cycles | next.rx_cycles) == 0;
      if (leaves_with_next) continue;
      leave(*group, low_bits(waiting.end) & ~low_bits(begin), *waiting.route, waiting.rx_cycles, watch);
      begin = waiting.end;
    }
    suspects_.release(*group);
  }
}

// Frames with a verdict, to where they go. Those of a timed pass leave at once, since the time to that is told.
template <class Io>
template <class Watch>
void Loop<Io>::leave(Burst& burst, uint64_t frames, const Route& route, uint64_t rx_cycles, Watch& watch) noexcept {
  io_.judged(burst, frames, route);
  Leaving& leaving = leaving_[static_cast<size_t>(&route - routes_.data())];
  const uint64_t dropped = burst.drop & frames, passed = frames & ~dropped;
  const auto n_passed = static_cast<uint32_t>(std::popcount(passed));
  const auto n_dropped = static_cast<uint32_t>(std::popcount(dropped));
  if (leaving.n_passed + n_passed > kMaxBurst || leaving.n_dropped + n_dropped > kMaxBurst || rx_cycles != 0)
      [[unlikely]] {
    flush(route, leaving);
  }
  if (passed != 0) {
    pack(kernels_, burst.pkt, passed, burst.n, leaving.passed + leaving.n_passed);
    leaving.n_passed += n_passed;
  }
  if (dropped != 0) {
    pack(kernels_, burst.pkt, dropped, burst.n, leaving.dropped + leaving.n_dropped);
    leaving.n_dropped += n_dropped;
  }
  watch.lap(wire::Stage::verdict, n_passed + n_dropped);
  if (rx_cycles != 0) [[unlikely]] {
    io_.timed(burst, frames);
    watch.leave_out();
    flush(route, leaving);
    watch.lap(wire::Stage::tx, n_passed + n_dropped);
    io_.timed_left(rx_cycles, n_passed + n_dropped);
  }
}

template <class Io>
void Loop<Io>::flush(const Route& route, Leaving& leaving) noexcept {
  if (leaving.n_passed != 0) io_.send(route, leaving.passed, leaving.n_passed);
  if (leaving.n_dropped != 0) io_.discard(route, leaving.dropped, leaving.n_dropped);
  leaving.n_passed = leaving.n_dropped = 0;
}

template <class Io>
template <class Watch>
void Loop<Io>::flush(Watch& watch) noexcept {
  for (size_t i = 0; i < leaving_.size(); i++) {
    const uint32_t n = leaving_[i].n_passed + leaving_[i].n_dropped;
    if (n == 0) continue;
    flush(routes_[i], leaving_[i]);
    watch.lap(wire::Stage::tx, n);
  }
}

template <class Io>
template <class Watch>
bool Loop<Io>::poll_unjudged(const Route& route, bool pass, Counter& reason, Watch& watch) noexcept {
  finish(watch);
  Burst& burst = receptions_[0];
  const uint64_t rx_cycles = watch.last();
  const uint32_t n = receive(route, kMaxReceived, burst, watch);
  if (n == 0) return false;
  burst.snapshot = nullptr;
  verdict_for_all(pass, burst, reason, counters_);
  leave(burst, low_bits(n), route, rx_cycles, watch);
  flush(watch);
  return true;
}

template <class Io>
template <class Watch>
void Loop<Io>::finish(Watch& watch) noexcept {
  if (empty()) return;
  if (undecided_.burst != nullptr) decide(watch);
  if (suspects_.are_gathered()) look_up_suspects(watch);
  suspects_.drain();
  watch.lap(wire::Stage::lookup, 0);
  leave_finished(watch);
  flush(watch);
}

}  // namespace weir::dataplane
