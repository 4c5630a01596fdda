#include "dataplane/burst/worker.h"

#include <rte_cycles.h>
#include <rte_ethdev.h>

#include <cassert>

#include "dataplane/burst/idle.h"
#include "dataplane/burst/loop.h"
#include "dataplane/burst/shadow.h"

namespace weir::dataplane {

namespace {

// True: a snapshot enforces. False: told to stop before there was one.
bool wait_for_first_snapshot(Worker& worker, const WorkerSetup& setup) noexcept {
  while (!setup.switches.stop.load(std::memory_order_relaxed)) {
    worker.gauges.passes.add(1);
    if (setup.slot.acquire() != nullptr) return true;
    rest_before_first_snapshot(setup.idle);
  }
  return false;
}

// The worker's ports, and who looks at its verdicts: the samplers, and the shadow's judge.
class Io {
 public:
  Io(Worker& worker, const WorkerSetup& setup)
      : worker_(worker), slot_(setup.slot), shadow_(setup.kernels, worker.id) {}

  uint32_t receive(const Route& route, uint32_t most, rte_mbuf** frames) noexcept {
    const uint32_t n = rte_eth_rx_burst(route.in.port, route.in.queue, frames, static_cast<uint16_t>(most));
    worker_.gauges.burst_sizes[n].add(1);
    worker_.load.received(static_cast<size_t>(&route - worker_.routes.data()), n);
    return n;
  }
  void judged(Burst& burst, uint64_t frames, const Route& route) noexcept {
    worker_.sampler.sample(burst, burst.drop & frames, route.in);
    if (burst.snapshot == nullptr) [[unlikely]]
      return;
    worker_.traffic.sample(burst, frames);
    ShadowRun* shadow = slot_.acquire_shadow();
    if (shadow != nullptr) [[unlikely]]
      shadow_.judge(*shadow, burst, frames, route);
  }
  void send(const Route& route, rte_mbuf** frames, uint32_t n) noexcept {
    dataplane::send(route, frames, n, worker_.counters);
  }
  void discard(const Route& route, rte_mbuf** frames, uint32_t n) noexcept {
    dataplane::discard(route, frames, n, worker_.counters);
  }
  void timed(const Burst& burst, uint64_t frames) noexcept { worker_.load.note(burst.pkt, frames); }
  void timed_left(uint64_t rx_cycles, uint32_t n) noexcept {
    worker_.gauges.latency_cycles.record(rte_rdtsc() - rx_cycles, n);
  }

 private:
  Worker& worker_;
  SnapshotSlot& slot_;
  ShadowJudge shadow_;
};

// Frames that wait keep the worker from a quiescent state, so now and then all come out.
constexpr uint32_t kMaxPassesWaiting = 64;

// A worker's thread passes over its queues, rests between passes that find none, and reports quiescence.
class Thread {
 public:
  Thread(Worker& worker, const WorkerSetup& setup)
      : worker_(worker),
        setup_(setup),
        io_(worker, setup),
        loop_(io_, worker.routes, setup.kernels, worker.counters),
        timed_passes_(setup.sample_one_in),
        idle_(setup.idle, worker.id, polled_queues(worker.routes, worker.spreads), setup.slot, worker.gauges) {}

  void run() noexcept;

 private:
  // One pass: a look at all queues. Watch: StageWatch, or NoWatch in the passes that are not timed. True: there were
  // frames, to judge or to hand on.
  template <class Watch>
  bool pass_over(Watch& watch) noexcept;
  [[gnu::noinline]] bool pass_over_timed(uint64_t begin) noexcept;
  // True: there were frames.
  template <class Watch>
  bool poll(const Route& route, Watch& watch) noexcept;

  Worker& worker_;
  const WorkerSetup& setup_;
  Io io_;
  Loop<Io> loop_;
  const Snapshot* judging_ = nullptr;
  bool has_changed_ = false;  // another snapshot judges, since the last quiescent state
  uint32_t passes_waiting_ = 0;
  TimedPasses timed_passes_;
  Idle idle_;
};

template <class Watch>
bool Thread::pass_over(Watch& watch) noexcept {
  const bool were_waiting = !loop_.empty();
  bool came = false, handed_on = false;
  for (const Spread& spread : worker_.spreads) handed_on |= spread_burst(spread, worker_.counters) != 0;
  for (const Route& route : worker_.routes) came |= poll(route, watch);
  // Frames wait for company while others come: when none do, and now and then, all leave.
  if (came && !has_changed_ && !loop_.empty() && passes_waiting_++ < kMaxPassesWaiting) return true;
  loop_.finish(watch);
  assert(loop_.empty());
  passes_waiting_ = 0;
  has_changed_ = false;
  setup_.slot.quiescent(worker_.id);  // no reference into a snapshot is alive past this line
  return came || handed_on || were_waiting;
}

template <class Watch>
bool Thread::poll(const Route& route, Watch& watch) noexcept {
  const Snapshot* snapshot = setup_.slot.acquire();  // once per reception
  has_changed_ |= snapshot != judging_;
  judging_ = snapshot;
  if (setup_.switches.bypass.load(std::memory_order_relaxed)) [[unlikely]]
    return loop_.poll_unjudged(route, true, worker_.counters.bypassed, watch);
  if (snapshot == nullptr) [[unlikely]] {
    const bool pass = setup_.pass_without_snapshot;
    return loop_.poll_unjudged(
        route, pass, pass ? worker_.counters.no_snapshot_passed : worker_.counters.no_snapshot_dropped, watch);
  }
  return loop_.poll(route, snapshot->of_worker(worker_.id), setup_.switches.now_unix_s.load(std::memory_order_relaxed),
                    watch);
}

bool Thread::pass_over_timed(uint64_t begin) noexcept {
  StageWatch watch(begin);
  if (!pass_over(watch)) return false;
  watch.add_to(worker_.gauges);
  worker_.gauges.pass_cycles.record(rte_rdtsc() - begin, 1);
  worker_.load.settle(begin);
  return true;
}

void Thread::run() noexcept {
  NoWatch no_watch;
  BusyTime& time = worker_.gauges.time;
  bool was_busy = false;
  time.begin(rte_rdtsc());
  while (!setup_.switches.stop.load(std::memory_order_relaxed)) {
    worker_.gauges.passes.add(1);
    const bool timed = timed_passes_.due();
    const uint64_t begin = timed || !was_busy ? rte_rdtsc() : 0;
    const bool busy = timed ? pass_over_timed(begin) : pass_over(no_watch);
    if (busy) timed_passes_.next();
    if (!busy && !was_busy) {
      idle_.rest(begin);
    } else if (busy != was_busy) {
      time.change(busy, busy ? begin : rte_rdtsc());
      if (busy) idle_.frames_came();
      was_busy = busy;
    }
  }
  loop_.finish(no_watch);
}

}  // namespace

void run(Worker& worker, const WorkerSetup& setup) noexcept {
  if (worker.routes.empty() && worker.spreads.empty()) return;
  Thread thread(worker, setup);
  if (setup.wait_for_snapshot && !wait_for_first_snapshot(worker, setup)) return;
  setup.slot.online(worker.id);
  thread.run();
  setup.slot.offline(worker.id);
}

}  // namespace weir::dataplane
