#include "dataplane/burst/worker.h"

#include <rte_cycles.h>

#include <cassert>

#include "dataplane/burst/flight.h"
#include "dataplane/burst/idle.h"

namespace weir::dataplane {

namespace {

using wire::Stage;

// True: a snapshot enforces. False: told to stop before there was one.
bool wait_for_first_snapshot(const WorkerSetup& setup) noexcept {
  while (!setup.switches.stop.load(std::memory_order_relaxed)) {
    if (setup.slot.acquire() != nullptr) return true;
    rest_before_first_snapshot(setup.idle);
  }
  return false;
}

// Bursts that stay in flight keep the worker from a quiescent state, so now and then all come out.
constexpr uint32_t kMaxLoopsInFlight = 64;

class Loop {
 public:
  Loop(Worker& worker, const WorkerSetup& setup)
      : worker_(worker),
        counters_(worker.counters),
        setup_(setup),
        flight_(setup.kernels, setup.look_ahead),
        timed_passes_(setup.sample_one_in),
        idle_(setup.idle, worker.id, worker.routes, setup.slot, worker.gauges) {}

  void run() noexcept;

 private:
  // One pass: a look at all queues. Watch: StageWatch, or NoWatch in the passes that are not timed. True: there were
  // frames.
  template <class Watch>
  bool poll_queues(Watch& watch) noexcept;
  [[gnu::noinline]] bool poll_queues_timed(uint64_t begin) noexcept;
  template <class Watch>
  void pass_by(bool pass, Counter& reason, const Route& route, Watch& watch) noexcept;
  template <class Watch>
  void leave(const Route& route, Burst& burst, Watch& watch) noexcept;
  template <class Watch>
  void finish_done(Watch& watch) noexcept;
  template <class Watch>
  void finish_all(Watch& watch) noexcept;

  Worker& worker_;
  WorkerCounters& counters_;
  const WorkerSetup& setup_;
  Flight flight_;
  uint32_t loops_in_flight_ = 0;
  TimedPasses timed_passes_;
  Idle idle_;
};

template <class Watch>
bool Loop::poll_queues(Watch& watch) noexcept {
  bool busy = !flight_.empty();
  bool overlap = true;  // every queue has more than it could give: the next bursts are there already
  for (const Spread& spread : worker_.spreads) {
    const bool full = spread_burst(spread, counters_);
    overlap &= full;
    busy |= full;
  }
  for (const Route& route : worker_.routes) {
    if (flight_.full()) finish_all(watch);
    Burst& burst = flight_.next();
    burst.rx_cycles = watch.last();
    const uint32_t n = rx(route.in, burst);
    watch.lap(Stage::rx, n);
    worker_.gauges.burst_sizes[n].add(1);
    overlap &= n == kMaxBurst;
    if (n == 0) continue;
    busy = true;
    const Snapshot* snapshot = setup_.slot.acquire();  // once per burst
    if (setup_.switches.bypass.load(std::memory_order_relaxed)) {
      pass_by(true, counters_.bypassed, route, watch);
      continue;
    }
    if (snapshot == nullptr) {
      const bool pass = setup_.pass_without_snapshot;
      pass_by(pass, pass ? counters_.no_snapshot_passed : counters_.no_snapshot_dropped, route, watch);
      continue;
    }
    const WorkerSnapshot& mine = snapshot->of_worker(worker_.id);
    overlap &= mine.look_ahead;
    burst.now_unix_s = setup_.switches.now_unix_s.load(std::memory_order_relaxed);
    const uint64_t rx_cycles = burst.rx_cycles;
    for (Burst* part = &burst; part != nullptr; part = flight_.carry_over(*part)) {
      part->rx_cycles = rx_cycles;
      parse(mine.wants, *part, counters_);
      watch.lap(Stage::parse, part->n);
      look_up(mine, route, flight_);  // keys, probe, match
      watch.lap(Stage::lookup, part->n);
    }
    finish_done(watch);  // verdict, tx
  }
  if (overlap && loops_in_flight_++ < kMaxLoopsInFlight) return busy;
  loops_in_flight_ = 0;
  finish_all(watch);
  assert(flight_.empty());
  setup_.slot.quiescent(worker_.id);  // no reference into a snapshot is alive past this line
  return busy;
}

// The bursts whose lookups are finished, in their order.
template <class Watch>
void Loop::finish_done(Watch& watch) noexcept {
  while (Burst* done = flight_.pop()) {
    verdict(*done->snapshot, *done, counters_);
    watch.lap(Stage::verdict, done->n);
    worker_.sampler.sample(*done, done->snapshot, done->route->in);
    leave(*done->route, *done, watch);
  }
}

template <class Watch>
void Loop::finish_all(Watch& watch) noexcept {
  flight_.drain();
  watch.lap(Stage::lookup, 0);
  finish_done(watch);
}

// Frames that no snapshot judges; those before them leave first.
template <class Watch>
void Loop::pass_by(bool pass, Counter& reason, const Route& route, Watch& watch) noexcept {
  Burst& burst = flight_.next();
  finish_all(watch);
  verdict_for_all(pass, burst, reason, counters_);
  watch.lap(Stage::verdict, burst.n);
  worker_.sampler.sample(burst, nullptr, route.in);
  leave(route, burst, watch);
}

template <class Watch>
void Loop::leave(const Route& route, Burst& burst, Watch& watch) noexcept {
  const uint32_t n = burst.n;
  tx(route, burst, counters_);
  watch.lap(Stage::tx, n);
  if (burst.rx_cycles != 0) [[unlikely]]
    worker_.gauges.latency_cycles.record(rte_rdtsc() - burst.rx_cycles, n);
}

bool Loop::poll_queues_timed(uint64_t begin) noexcept {
  StageWatch watch(begin);
  if (!poll_queues(watch)) return false;
  watch.add_to(worker_.gauges);
  worker_.gauges.pass_cycles.record(rte_rdtsc() - begin, 1);
  return true;
}

void Loop::run() noexcept {
  NoWatch no_watch;
  BusyTime& time = worker_.gauges.time;
  bool was_busy = false;
  time.begin(rte_rdtsc());
  while (!setup_.switches.stop.load(std::memory_order_relaxed)) {
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
  finish_all(no_watch);
}

}  // namespace

void look_up(const WorkerSnapshot& snapshot, const Route& route, Flight& flight) noexcept {
  Burst& burst = flight.take(snapshot, route);
  for (size_t i = 0; i < snapshot.lookups.size(); i++) {
    KeyBatch& batch = flight.next_batch();
    keys(snapshot.lookups[i], burst, batch);
    if (batch.n == 0) continue;
    flight.probe(batch, snapshot.lanes[i]);
    while (const KeyBatch* probed = flight.probed()) match(*probed);
  }
  flight.probing_done(burst);
}

void run(Worker& worker, const WorkerSetup& setup) noexcept {
  if (worker.routes.empty() && worker.spreads.empty()) return;
  Loop loop(worker, setup);
  if (setup.wait_for_snapshot && !wait_for_first_snapshot(setup)) return;
  setup.slot.online(worker.id);
  loop.run();
  setup.slot.offline(worker.id);
}

}  // namespace weir::dataplane
