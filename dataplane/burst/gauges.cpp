#include "dataplane/burst/gauges.h"

namespace weir::dataplane {

BusyTime::Reading BusyTime::read(uint64_t now) const noexcept {
  const uint64_t begun = begun_.load(std::memory_order_acquire);
  if (begun == 0) return {0, 0};
  while (true) {
    const uint64_t phase = phase_.load(std::memory_order_acquire);
    uint64_t busy = busy_cycles_.load(std::memory_order_acquire);
    if (phase == kChanging || phase_.load(std::memory_order_relaxed) != phase) continue;
    const uint64_t since = phase >> 1;
    if (now < since) now = since;  // `now` was taken before the phase began
    if ((phase & 1) != 0) busy += now - since;
    return {now - begun, busy};
  }
}

void WorkerGauges::add_to(wire::Telemetry& telemetry, uint64_t now) const {
  wire::TelemetryBody& body = telemetry.body;
  const BusyTime::Reading reading = time.read(now);
  body.total_cycles = reading.total_cycles;
  body.busy_cycles = reading.busy_cycles;
  body.rests = rests.get();
  body.rest = rest.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < wire::kStages; i++) body.stages[i] = {stage_cycles[i].get(), stage_packets[i].get()};
  for (uint32_t i = 0; i < wire::kBurstSizes; i++) body.burst_sizes[i] = burst_sizes[i].get();
  telemetry.pass_cycles = pass_cycles.buckets();
  telemetry.latency_cycles = latency_cycles.buckets();
}

}  // namespace weir::dataplane
