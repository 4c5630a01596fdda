#include <atomic>
#include <thread>

#include "dataplane/snapshot/snapshot_slot.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/snapshots.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

// Reads a snapshot as a burst does, and looks twice: what it sees must not change, and the memory must still be there
// (it is unmapped after the grace period).
uint64_t read_as_burst(const SnapshotSlot& slot, uint32_t worker) {
  const Snapshot* snapshot = slot.acquire();
  if (snapshot == nullptr) return 0;
  const WorkerSnapshot& mine = snapshot->of_worker(worker);
  const uint64_t number = mine.view->header().number;
  for (int i = 0; i < 50; i++) {
    if (mine.view->header().number != number) return UINT64_MAX;
    if (mine.view->lists()[0].n_entries != number) return UINT64_MAX;
  }
  mine.lists[0].matched.add(1, 1);
  return number;
}

}  // namespace

TEST_CASE("workers see whole snapshots, in order, while they are exchanged") {
  constexpr uint32_t kWorkers = 3;  // the last one goes offline and comes back all the time
  constexpr uint64_t kSwaps = 200;
  Result<std::unique_ptr<SnapshotSlot>> made = SnapshotSlot::make(kWorkers);
  REQUIRE(made);
  SnapshotSlot& slot = **made;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> reads = 0, faults = 0;
  std::vector<std::thread> workers;
  for (uint32_t id = 0; id < kWorkers; id++) {
    workers.emplace_back([&, id] {
      uint64_t last = 0;
      slot.online(id);
      while (!stop.load()) {
        const uint64_t number = read_as_burst(slot, id);
        if (number == UINT64_MAX || number < last) faults++;
        if (number != UINT64_MAX) last = number;
        if (number != 0) reads++;
        slot.quiescent(id);
        if (id == kWorkers - 1) {
          slot.offline(id);
          slot.online(id);
        }
      }
      slot.offline(id);
    });
  }
  uint64_t counted = 0;
  const std::vector<WorkerPlace> places(kWorkers);
  for (uint64_t number = 1; number <= kSwaps; number++) {
    filter::SnapshotInput input = empty_input(number);
    input.lists[0].n_entries = number;
    const std::unique_ptr<Snapshot> former = slot.exchange(attach(build(input), places));
    slot.wait_for_readers();
    if (former) counted += former->list_stats()[0].matched;
    while (number == kSwaps && reads.load() < kSwaps) std::this_thread::yield();
  }
  stop = true;
  for (std::thread& worker : workers) worker.join();
  CHECK(faults == 0);
  CHECK(slot.current()->generation().number == kSwaps);
  CHECK(counted + slot.current()->list_stats()[0].matched == reads);  // no count is lost at a swap
}
