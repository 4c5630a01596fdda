#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "dataplane/burst/gauges.h"
#include "dataplane/burst/load.h"
#include "dataplane/burst/sample.h"
#include "dataplane/burst/spread.h"
#include "dataplane/burst/stages.h"
#include "dataplane/burst/traffic.h"
#include "dataplane/snapshot/snapshot_slot.h"
#include "dataplane/start/config.h"

namespace weir::dataplane {

// What the control thread tells the workers. Read with relaxed loads, once per burst or loop.
struct Switches {
  std::atomic<bool> stop = false;
  std::atomic<bool> bypass = false;
  std::atomic<uint64_t> now_unix_s = 0;  // the clock that `expires` is compared with
};

struct Worker {
  uint32_t id = 0;  // 0..n-1: its place in the slot and in every snapshot
  unsigned lcore = 0;
  std::vector<Route> routes;    // one per receive queue that it polls
  std::vector<Spread> spreads;  // what it hands on to other workers; both empty: it has nothing to do
  WorkerCounters counters;
  WorkerGauges gauges;
  WorkerLoad load;
  Sampler sampler;
  TrafficSampler traffic;
};

struct WorkerSetup {
  const Switches& switches;
  SnapshotSlot& slot;
  bool pass_without_snapshot;
  bool wait_for_snapshot;  // poll no port before the first snapshot enforces
  const filter::Kernels& kernels;
  IdleConfig idle;
  uint32_t sample_one_in;  // passes that are timed; 0: none
};

// Runs until switches.stop.
void run(Worker& worker, const WorkerSetup& setup) noexcept;

}  // namespace weir::dataplane
