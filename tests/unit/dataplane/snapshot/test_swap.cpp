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

namespace {

// 10.0.`number`.1 is on a list in the snapshot or overlay of this number.
filter::SnapshotInput one_host(uint64_t number) {
  filter::SnapshotInput input = empty_input(number);
  input.sets.push_back({{1}});
  input.rules.push_back({1, 0, 0, 0});
  filter::KeyTable& table = input.tables.emplace_back();
  table.shape = {4, 32, false};
  table.asked = WEIR_AS_SOURCE;
  const auto host = static_cast<Ipv4>(0x0a000001 + (number << 8));
  table.words[0].push_back(filter::make_key(table.shape, host).word[0]);
  table.rules.push_back(1);
  input.gates[weir_gate_number(4, WEIR_SIDE_SOURCE)].tables = {{24, 0}};
  return input;
}

}  // namespace

TEST_CASE("workers ask the gates of a base while overlays are joined to it, and see each key of what they acquired") {
  constexpr uint64_t kOverlays = 100;
  Result<std::unique_ptr<SnapshotSlot>> made = SnapshotSlot::make(1);
  REQUIRE(made);
  SnapshotSlot& slot = **made;
  const std::vector<WorkerPlace> places(1);
  const SnapshotBytes base_bytes = build(one_host(1));
  const std::shared_ptr<const Copies> base = copy(base_bytes, places);
  auto first = Snapshot::open(base, nullptr, places);
  REQUIRE(first);
  slot.exchange(std::move(*first));

  std::atomic<bool> stop = false;
  std::atomic<uint64_t> kept_out = 0, seen = 0;
  std::thread worker([&] {
    slot.online(0);
    while (!stop.load()) {
      const WorkerSnapshot& mine = slot.acquire()->of_worker(0);
      const uint64_t number = mine.generation().number;
      for (const uint64_t host : {uint64_t{1}, number}) {
        kept_out += !filter::passes_gate(mine.gate(4, kSource), uint64_t{0x0a000001 + (host << 8)} << 32);
      }
      if (mine.view->header().number != 1) kept_out++;
      if (number > 1) seen++;
      slot.quiescent(0);
    }
    slot.offline(0);
  });
  for (uint64_t number = 2; number < 2 + kOverlays; number++) {
    auto next = Snapshot::open(base, copy(build(one_host(number), &base_bytes), places), places);
    REQUIRE(next);
    const std::unique_ptr<Snapshot> former = slot.exchange(std::move(*next));
    slot.wait_for_readers();
  }
  while (seen.load() < kOverlays) std::this_thread::yield();
  stop = true;
  worker.join();
  CHECK(kept_out == 0);
}
