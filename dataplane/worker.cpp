#include "dataplane/worker.h"

#include <rte_pause.h>

#include <cassert>

#include "dataplane/flight.h"

namespace weir::dataplane {

namespace {

// True: a snapshot enforces. False: told to stop before there was one.
bool wait_for_first_snapshot(const Worker& worker, const WorkerSetup& setup) noexcept {
  while (!setup.switches.stop.load(std::memory_order_relaxed)) {
    if (setup.slot.acquire() != nullptr) return true;
    setup.slot.quiescent(worker.id);
    rte_pause();
  }
  return false;
}

// Bursts that stay in flight keep the worker from a quiescent state, so now and then all come out.
constexpr uint32_t kMaxLoopsInFlight = 64;

void finish(Burst& burst, Worker& worker) noexcept {
  verdict(*burst.snapshot, burst, worker.counters);
  worker.sampler.sample(burst, burst.snapshot, burst.route->in);
  tx(*burst.route, burst, worker.counters);
}

void finish_done(Flight& flight, Worker& worker) noexcept {
  while (Burst* done = flight.pop()) finish(*done, worker);
}

void finish_all(Flight& flight, Worker& worker) noexcept {
  flight.drain();
  finish_done(flight, worker);
}

// Frames that no snapshot judges; those before them leave first.
void pass_by(bool pass, Counter& reason, const Route& route, Flight& flight, Worker& worker) noexcept {
  Burst& burst = flight.next();
  finish_all(flight, worker);
  verdict_for_all(pass, burst, reason, worker.counters);
  worker.sampler.sample(burst, nullptr, route.in);
  tx(route, burst, worker.counters);
}

void poll(Worker& worker, const WorkerSetup& setup, Flight& flight) noexcept {
  WorkerCounters& counters = worker.counters;
  uint32_t loops_in_flight = 0;
  while (!setup.switches.stop.load(std::memory_order_relaxed)) {
    bool overlap = true;  // every queue has more than it could give: the next bursts are there already
    for (const Route& route : worker.routes) {
      if (flight.full()) finish_all(flight, worker);
      Burst& burst = flight.next();
      const uint32_t n = rx(route.in, burst);
      overlap &= n == kMaxBurst;
      if (n == 0) continue;
      const Snapshot* snapshot = setup.slot.acquire();  // once per burst
      if (setup.switches.bypass.load(std::memory_order_relaxed)) {
        pass_by(true, counters.bypassed, route, flight, worker);
      } else if (snapshot != nullptr) {
        const WorkerSnapshot& mine = snapshot->of_worker(worker.id);
        burst.now_unix_s = setup.switches.now_unix_s.load(std::memory_order_relaxed);
        for (Burst* part = &burst; part != nullptr; part = flight.carry_over(*part)) {
          parse(mine.view->header().tunnels, *part, counters);
          flight.push(mine, route);
        }
        finish_done(flight, worker);
        overlap &= mine.look_ahead;
      } else if (setup.pass_without_snapshot) {
        pass_by(true, counters.no_snapshot_passed, route, flight, worker);
      } else {
        pass_by(false, counters.no_snapshot_dropped, route, flight, worker);
      }
    }
    if (overlap && loops_in_flight++ < kMaxLoopsInFlight) continue;
    loops_in_flight = 0;
    finish_all(flight, worker);
    assert(flight.empty());
    setup.slot.quiescent(worker.id);  // no reference into a snapshot is alive past this line
  }
  finish_all(flight, worker);
}

}  // namespace

void run(Worker& worker, const WorkerSetup& setup) noexcept {
  if (worker.routes.empty()) return;
  setup.slot.online(worker.id);
  Flight flight(setup.kernels, setup.look_ahead);
  if (!setup.wait_for_snapshot || wait_for_first_snapshot(worker, setup)) poll(worker, setup, flight);
  setup.slot.offline(worker.id);
}

}  // namespace weir::dataplane
