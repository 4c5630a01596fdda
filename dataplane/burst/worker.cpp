#include "dataplane/burst/worker.h"

#include <rte_cycles.h>

#include <cassert>

#include "dataplane/burst/idle.h"
#include "dataplane/burst/passage.h"
#include "dataplane/burst/shadow.h"

namespace weir::dataplane {

namespace {

using wire::Stage;

// True: a snapshot enforces. False: told to stop before there was one.
bool wait_for_first_snapshot(Worker& worker, const WorkerSetup& setup) noexcept {
  while (!setup.switches.stop.load(std::memory_order_relaxed)) {
    worker.gauges.passes.add(1);
    if (setup.slot.acquire() != nullptr) return true;
    rest_before_first_snapshot(setup.idle);
  }
  return false;
}

// Frames that wait keep the worker from a quiescent state, so now and then all come out.
constexpr uint32_t kMaxPassesWaiting = 64;

class Loop {
 public:
  Loop(Worker& worker, const WorkerSetup& setup)
      : worker_(worker),
        counters_(worker.counters),
        setup_(setup),
        passage_(*this, setup.kernels, worker.counters),
        shadow_(setup.kernels, worker.id),
        timed_passes_(setup.sample_one_in),
        idle_(setup.idle, worker.id, polled_queues(worker.routes, worker.spreads), setup.slot, worker.gauges) {}

  void run() noexcept;

  // Of Passage.
  void judged(Burst& burst, uint64_t frames, const WorkerSnapshot& snapshot, const Route& route) noexcept {
    worker_.sampler.sample(burst, burst.drop & frames, &snapshot, route.in);
    worker_.traffic.sample(burst, frames);
    ShadowRun* shadow = setup_.slot.acquire_shadow();
    if (shadow != nullptr) [[unlikely]]
      shadow_.judge(*shadow, burst, frames, snapshot, route);
  }
  template <class Watch>
  void leave(const Route& route, uint64_t rx_cycles, rte_mbuf** frames, uint32_t n, uint64_t drop,
             Watch& watch) noexcept;

 private:
  // One pass: a look at all queues. Watch: StageWatch, or NoWatch in the passes that are not timed. True: there were
  // frames, to judge or to hand on.
  template <class Watch>
  bool poll_queues(Watch& watch) noexcept;
  [[gnu::noinline]] bool poll_queues_timed(uint64_t begin) noexcept;
  // One look at one queue. True: there were frames.
  template <class Watch>
  bool poll(const Route& route, Watch& watch) noexcept;
  template <class Watch>
  uint32_t receive(const Route& route, uint32_t most, Watch& watch) noexcept;
  // poll() for frames that no snapshot judges; those before them leave first.
  template <class Watch>
  bool pass_by(bool pass, Counter& reason, const Route& route, Watch& watch) noexcept;

  Worker& worker_;
  WorkerCounters& counters_;
  const WorkerSetup& setup_;
  Passage<Loop> passage_;
  ShadowJudge shadow_;
  bool has_changed_ = false;  // another snapshot judges, since the last quiescent state
  uint32_t passes_waiting_ = 0;
  TimedPasses timed_passes_;
  Idle idle_;
};

template <class Watch>
bool Loop::poll_queues(Watch& watch) noexcept {
  const bool were_waiting = !passage_.empty();
  bool came = false, handed_on = false;
  for (const Spread& spread : worker_.spreads) handed_on |= spread_burst(spread, counters_) != 0;
  for (const Route& route : worker_.routes) came |= poll(route, watch);
  // Frames wait for company while others come: when none do, and now and then, all leave.
  if (came && !has_changed_ && !passage_.empty() && passes_waiting_++ < kMaxPassesWaiting) return true;
  passage_.finish(watch);
  assert(passage_.empty());
  passes_waiting_ = 0;
  has_changed_ = false;
  setup_.slot.quiescent(worker_.id);  // no reference into a snapshot is alive past this line
  return came || handed_on || were_waiting;
}

template <class Watch>
bool Loop::poll(const Route& route, Watch& watch) noexcept {
  const Snapshot* snapshot = setup_.slot.acquire();  // once per reception
  if (setup_.switches.bypass.load(std::memory_order_relaxed)) [[unlikely]]
    return pass_by(true, counters_.bypassed, route, watch);
  if (snapshot == nullptr) [[unlikely]] {
    const bool pass = setup_.pass_without_snapshot;
    return pass_by(pass, pass ? counters_.no_snapshot_passed : counters_.no_snapshot_dropped, route, watch);
  }
  const WorkerSnapshot& mine = snapshot->of_worker(worker_.id);
  has_changed_ |= passage_.judge_by(mine, watch);
  Burst& burst = passage_.open();
  const uint32_t first = burst.n;
  const uint64_t rx_cycles = watch.last();
  if (receive(route, room_for(mine.wants, burst), watch) == 0) return false;
  burst.now_unix_s = setup_.switches.now_unix_s.load(std::memory_order_relaxed);
  passage_.take(route, rx_cycles, first, watch);  // parse to tx
  return true;
}

template <class Watch>
uint32_t Loop::receive(const Route& route, uint32_t most, Watch& watch) noexcept {
  const uint32_t n = rx(route.in, most, passage_.open());
  watch.lap(Stage::rx, n);
  worker_.gauges.burst_sizes[n].add(1);
  worker_.load.received(static_cast<size_t>(&route - worker_.routes.data()), n);
  return n;
}

template <class Watch>
bool Loop::pass_by(bool pass, Counter& reason, const Route& route, Watch& watch) noexcept {
  passage_.finish(watch);
  const uint64_t rx_cycles = watch.last();
  if (receive(route, kMaxReceived, watch) == 0) return false;
  Burst& burst = passage_.open();
  verdict_for_all(pass, burst, reason, counters_);
  watch.lap(Stage::verdict, burst.n);
  worker_.sampler.sample(burst, burst.drop, nullptr, route.in);
  leave(route, rx_cycles, burst.pkt, burst.n, burst.drop, watch);
  clear(burst);
  return true;
}

template <class Watch>
void Loop::leave(const Route& route, uint64_t rx_cycles, rte_mbuf** frames, uint32_t n, uint64_t drop,
                 Watch& watch) noexcept {
  if (rx_cycles != 0) [[unlikely]] {
    worker_.load.note(frames, n);
    watch.leave_out();
  }
  tx(route, frames, n, drop, counters_);
  watch.lap(Stage::tx, n);
  if (rx_cycles != 0) [[unlikely]]
    worker_.gauges.latency_cycles.record(rte_rdtsc() - rx_cycles, n);
}

bool Loop::poll_queues_timed(uint64_t begin) noexcept {
  StageWatch watch(begin);
  if (!poll_queues(watch)) return false;
  watch.add_to(worker_.gauges);
  worker_.gauges.pass_cycles.record(rte_rdtsc() - begin, 1);
  worker_.load.settle(begin);
  return true;
}

void Loop::run() noexcept {
  NoWatch no_watch;
  BusyTime& time = worker_.gauges.time;
  bool was_busy = false;
  time.begin(rte_rdtsc());
  while (!setup_.switches.stop.load(std::memory_order_relaxed)) {
    worker_.gauges.passes.add(1);
    const bool timed = timed_passes_.due();
    const uint64_t begin = timed || !was_busy ? rte_rdtsc() : 0;
    const bool busy = timed ? poll_queues_timed(begin) : poll_queues(no_watch);
    if (busy) timed_passes_.next();
    if (!busy && !was_busy) {
      idle_.rest(begin);
    } else if (busy != was_busy) {
      time.change(busy, busy ? begin : rte_rdtsc());
      if (busy) idle_.frames_came();
      was_busy = busy;
    }
  }
  passage_.finish(no_watch);
}

}  // namespace

void run(Worker& worker, const WorkerSetup& setup) noexcept {
  if (worker.routes.empty() && worker.spreads.empty()) return;
  Loop loop(worker, setup);
  if (setup.wait_for_snapshot && !wait_for_first_snapshot(worker, setup)) return;
  setup.slot.online(worker.id);
  loop.run();
  setup.slot.offline(worker.id);
}

}  // namespace weir::dataplane
