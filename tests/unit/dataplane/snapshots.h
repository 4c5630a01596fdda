#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "dataplane/snapshot/snapshot.h"
#include "dataplane/start/state_dir.h"
#include "filter/build/builder.h"
#include "filter/probe/dispatch.h"
#include "tests/catch.h"

// Snapshots made by hand, for tests.
namespace weir::test {

using AlignedBytes = std::unique_ptr<std::byte[], decltype(&free)>;

struct SnapshotBytes {
  AlignedBytes memory{nullptr, &free};
  size_t size = 0;
  std::span<std::byte> bytes() const { return {memory.get(), size}; }
};

// base: on which an overlay stands; null: a snapshot.
inline SnapshotBytes build(const filter::SnapshotInput& input, const SnapshotBytes* base = nullptr) {
  Result<filter::SnapshotPlan> plan = filter::plan_snapshot(input);
  INFO((plan ? "" : plan.error()));
  REQUIRE(plan);
  if (base != nullptr) {
    const Digest digest = digest_of(base->bytes());
    plan->header.base_number = reinterpret_cast<const weir_snapshot_header*>(base->memory.get())->number;
    std::copy(digest.begin(), digest.end(), plan->header.base_digest);
  }
  SnapshotBytes snapshot;
  snapshot.size = plan->header.total_bytes;
  snapshot.memory.reset(static_cast<std::byte*>(aligned_alloc(4096, (snapshot.size + 4095) / 4096 * 4096)));
  memset(snapshot.memory.get(), 0, snapshot.size);
  const Result<void> built = filter::build_snapshot(input, *plan, snapshot.bytes());
  INFO((built ? "" : built.error()));
  REQUIRE(built);
  return snapshot;
}

// A snapshot of two lists, `first` (drop) and `second` (pass), that hold nothing.
inline filter::SnapshotInput empty_input(uint64_t number) {
  filter::SnapshotInput input;
  input.epoch = 7;
  input.number = number;
  input.secret = {11, 22};
  input.lists = {{"first", WEIR_DROP, WEIR_ENFORCE, 0}, {"second", WEIR_PASS, WEIR_ENFORCE, 0}};
  input.sets = {weir_set{}};
  input.rules = {weir_rule{}};
  return input;
}

inline const filter::Kernels& scalar_kernels() {
  return *filter::all_kernels().back();
}

inline std::shared_ptr<const dataplane::Copies> copy(const SnapshotBytes& snapshot,
                                                     std::span<const dataplane::WorkerPlace> workers) {
  auto copies = dataplane::Copies::allocate(snapshot.size, workers);
  REQUIRE(copies);
  for (auto& copy : *copies) memcpy(copy.memory.mapping.bytes().data(), snapshot.memory.get(), snapshot.size);
  auto opened = dataplane::Copies::open(std::move(*copies), snapshot.size, digest_of(snapshot.bytes()));
  INFO((opened ? "" : opened.error()));
  REQUIRE(opened);
  return std::make_shared<const dataplane::Copies>(std::move(*opened));
}

inline std::unique_ptr<dataplane::Snapshot> attach(const SnapshotBytes& base, const SnapshotBytes& overlay,
                                                   std::vector<dataplane::WorkerPlace> workers = {{-1}}) {
  auto attached = dataplane::Snapshot::open(copy(base, workers), copy(overlay, workers), workers);
  INFO((attached ? "" : attached.error()));
  REQUIRE(attached);
  return std::move(*attached);
}

inline std::unique_ptr<dataplane::Snapshot> attach(const SnapshotBytes& snapshot,
                                                   std::vector<dataplane::WorkerPlace> workers = {{-1}}) {
  auto attached = dataplane::Snapshot::open(copy(snapshot, workers), nullptr, workers);
  INFO((attached ? "" : attached.error()));
  REQUIRE(attached);
  return std::move(*attached);
}

}  // namespace weir::test
