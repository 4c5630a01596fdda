// The maker alone, with its disk.

#include <filesystem>

#include "control/daemon/maker.h"
#include "control/policy/read/policy.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

TEST_CASE("a snapshot that the disk refused is saved again, also when the book of its base was written") {
  const Folder folder;
  Result<Store> store = Store::open(folder / "state");
  REQUIRE(store);
  Result<GenerationFile> numbers = GenerationFile::open(folder / "state");
  REQUIRE(numbers);
  Progress progress;
  Maker maker(*store, std::move(*numbers), std::nullopt, std::nullopt,
              {folder / "weir.yaml", folder / "state", folder / "default", {}, 1}, progress);
  Diagnostics diagnostics;
  ReloadJob job;
  job.policy = read_policy_text(folder / "weir.yaml", policy_text("203.0.113.7"), diagnostics, 0, FeedHistory(nullptr));
  REQUIRE(job.policy);

  const std::string snapshot = folder / "state/snapshot.weir";
  std::filesystem::create_directory(snapshot);  // no file can take its place
  maker.make(job, nullptr, nullptr);
  REQUIRE(job.next);
  CHECK_FALSE(job.saved);
  CHECK(maker.keep_change(*job.next, true));
  CHECK_FALSE(maker.keep_again(*job.next, {}));
  std::filesystem::remove(snapshot);
  CHECK(maker.keep_again(*job.next, {}));
  const Result<wire::Generation> stored = store->stored_generation();
  REQUIRE(stored);
  CHECK(*stored == job.next->publication->generation);
}
