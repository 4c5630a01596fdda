#include "dataplane/worker.h"

#include <rte_pause.h>

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

void poll(Worker& worker, const WorkerSetup& setup) noexcept {
  WorkerCounters& counters = worker.counters;
  Burst burst;
  while (!setup.switches.stop.load(std::memory_order_relaxed)) {
    for (const Route& route : worker.routes) {
      if (rx(route.in, burst) == 0) continue;
      const Snapshot* snapshot = setup.slot.acquire();  // once per burst
      if (setup.switches.bypass.load(std::memory_order_relaxed)) {
        verdict_for_all(true, burst, counters.bypassed, counters);
      } else if (snapshot != nullptr) {
        classify(snapshot->of_worker(worker.id), burst, counters);
      } else if (setup.pass_without_snapshot) {
        verdict_for_all(true, burst, counters.no_snapshot_passed, counters);
      } else {
        verdict_for_all(false, burst, counters.no_snapshot_dropped, counters);
      }
      tx(route, burst, counters);
    }
    setup.slot.quiescent(worker.id);  // no reference into a snapshot is alive past this line
  }
}

}  // namespace

void classify(const WorkerSnapshot& snapshot, Burst& burst, WorkerCounters& counters) noexcept {
  parse(burst, counters);
  for (const Lookup& lookup : snapshot.lookups) {
    keys(lookup, burst);
    probe(snapshot, lookup, burst);
    exact(snapshot, lookup, burst);
  }
  verdict(snapshot, burst, counters);
}

void run(Worker& worker, const WorkerSetup& setup) noexcept {
  if (worker.routes.empty()) return;
  setup.slot.online(worker.id);
  if (!setup.wait_for_snapshot || wait_for_first_snapshot(worker, setup)) poll(worker, setup);
  setup.slot.offline(worker.id);
}

}  // namespace weir::dataplane
