#pragma once

#include <cstdint>
#include <vector>

#include "common/telemetry.h"
#include "dataplane/burst/gauges.h"
#include "dataplane/ports/port_plan.h"
#include "dataplane/snapshot/snapshot_slot.h"
#include "dataplane/start/config.h"

namespace weir::dataplane {

// What a worker does between two looks at queues that are empty: docs/operate/telemetry.md, "Idle". Made and used on
// the worker's own thread.
class Idle {
 public:
  // Finds out whether all queues raise interrupts, when the configuration asks for them, and says so when not.
  // queues: all that the worker polls; without any it never waits for an interrupt.
  Idle(const IdleConfig& config, uint32_t worker, std::vector<PortQueue> queues, SnapshotSlot& slot,
       WorkerGauges& gauges);

  // After a pass without frames that began at `now` (TSC). The worker holds no reference into a snapshot.
  void rest(uint64_t now) noexcept;
  // The first pass with frames after some without.
  void frames_came() noexcept;

 private:
  bool add_interrupts();
  void say_no_interrupts(uint16_t port, int error) const;
  void arm() noexcept;
  void disarm() noexcept;
  void pause() noexcept;
  void sleep() noexcept;
  void wait_for_interrupt() noexcept;

  const IdleConfig config_;
  const uint32_t worker_;
  const std::vector<PortQueue> queues_;
  SnapshotSlot& slot_;
  WorkerGauges& gauges_;
  wire::Rest mode_;
  const uint64_t cycles_per_us_;
  uint32_t empty_passes_ = 0;
  uint64_t since_ = 0;         // TSC: the first of them
  uint64_t pause_cycles_ = 0;  // the last pause
  uint32_t sleep_us_ = 0;      // the last sleep
  bool armed_ = false;         // interrupts are on
};

// The receive queues that a worker looks at in each pass: of its routes, and of what it hands on to other workers.
std::vector<PortQueue> polled_queues(const std::vector<Route>& routes, const std::vector<Spread>& spreads);

// Without a snapshot and without looking at ports.
void rest_before_first_snapshot(const IdleConfig& config) noexcept;

}  // namespace weir::dataplane
