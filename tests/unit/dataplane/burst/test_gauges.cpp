#include <atomic>
#include <thread>
#include <vector>

#include "dataplane/burst/gauges.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::dataplane;

TEST_CASE("busy time is right at every moment, also within a phase that lasts") {
  BusyTime time;
  const auto is = [&](uint64_t now, uint64_t total, uint64_t busy) {
    const BusyTime::Reading reading = time.read(now);
    CHECK(reading.total_cycles == total);
    CHECK(reading.busy_cycles == busy);
  };
  is(50, 0, 0);  // not begun
  time.begin(100);
  is(150, 50, 0);
  time.change(true, 200);
  is(200, 100, 0);
  is(260, 160, 60);
  time.change(false, 300);
  is(300, 200, 100);
  is(400, 300, 100);
  time.change(true, 500);
  is(510, 410, 110);
  is(490, 400, 100);  // read by somebody whose time stamp is older than the phase
}

TEST_CASE("a reader never sees busy time go back or past the total") {
  BusyTime time;
  time.begin(1);
  std::atomic<uint64_t> now = 1;
  std::atomic<bool> stop = false;
  std::thread worker([&] {
    bool busy = false;
    while (!stop.load(std::memory_order_relaxed)) {
      time.change(busy = !busy, now.fetch_add(10, std::memory_order_relaxed) + 10);
    }
  });
  uint64_t last = 0;
  bool good = true;
  for (int i = 0; i < 100'000; i++) {
    const BusyTime::Reading reading = time.read(now.load(std::memory_order_relaxed));
    good = good && reading.busy_cycles >= last && reading.busy_cycles <= reading.total_cycles;
    last = reading.busy_cycles;
  }
  stop.store(true, std::memory_order_relaxed);
  worker.join();
  CHECK(good);
}

TEST_CASE("one pass in N is timed, at gaps that vary") {
  for (const uint32_t one_in : {0u, 1u, 2u, 64u}) {
    TimedPasses sampler(one_in);
    constexpr uint32_t kPasses = 640'000;
    uint32_t due = 0;
    uint32_t last = 0;
    std::vector<bool> gaps(200);
    for (uint32_t i = 0; i < kPasses; i++) {
      if (sampler.due()) {
        due++;
        gaps.at(i - last) = true;
        last = i;
      }
      sampler.next();
    }
    if (one_in == 0) {
      CHECK(due == 0);
    } else {
      const uint32_t expected = kPasses / one_in;
      CHECK(due > expected * 0.95);
      CHECK(due < expected * 1.05);
      if (one_in == 64) CHECK(std::count(gaps.begin(), gaps.end(), true) > 100);
    }
  }
}

TEST_CASE("what a worker measured is told") {
  static WorkerGauges gauges;
  gauges.time.begin(1000);
  gauges.burst_sizes[64].add(2);
  gauges.pass_cycles.record(100, 1);
  gauges.latency_cycles.record(1000, 64);
  gauges.latency_cycles.record(5, 1);
  StageWatch watch(rte_rdtsc());
  watch.lap(wire::Stage::parse, 64);
  watch.add_to(gauges);
  wire::Telemetry telemetry;
  gauges.add_to(telemetry, 1500);
  CHECK(telemetry.body.total_cycles == 500);
  CHECK(telemetry.body.burst_sizes[64] == 2);
  CHECK(telemetry.body.stages[static_cast<uint32_t>(wire::Stage::parse)].packets == 64);
  CHECK(telemetry.body.stages[static_cast<uint32_t>(wire::Stage::rx)].packets == 0);
  CHECK(telemetry.pass_cycles == std::vector<Bucket>{{100, 1}});
  CHECK(telemetry.latency_cycles == std::vector<Bucket>{{5, 1}, {bucket_upper(bucket_of(1000)), 64}});
}
