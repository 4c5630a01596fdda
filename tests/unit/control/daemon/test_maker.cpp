// The maker alone, with its disk.

#include <sys/resource.h>

#include <filesystem>

#include "control/daemon/maker.h"
#include "control/policy/read/policy.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

namespace {

// A maker with a new disk, and a reload of a small policy.
struct Made {
  Made() {
    Diagnostics diagnostics;
    job.policy =
        read_policy_text(folder / "weir.yaml", policy_text("203.0.113.7"), diagnostics, 0, FeedHistory(nullptr));
    must(job.policy.has_value());
  }

  const Folder folder;
  Store store = std::move(Store::open(folder / "state").value());
  Progress progress;
  Maker maker = Maker(store, std::move(GenerationFile::open(folder / "state").value()), std::nullopt, std::nullopt,
                      {folder / "weir.yaml", folder / "state", folder / "default", {}, 1}, progress);
  ReloadJob job;
};

}  // namespace

TEST_CASE("a snapshot that the disk refused is saved again, also when the book of its base was written") {
  Made made;
  Store& store = made.store;
  Maker& maker = made.maker;
  ReloadJob& job = made.job;
  const std::string snapshot = made.folder / "state/snapshot.weir";
  std::filesystem::create_directory(snapshot);  // no file can take its place
  maker.make(job, nullptr, nullptr);
  REQUIRE(job.next);
  CHECK_FALSE(job.saved);
  CHECK(maker.keep_change(*job.next, true));
  CHECK_FALSE(maker.keep_again(*job.next, {}));
  std::filesystem::remove(snapshot);
  CHECK(maker.keep_again(*job.next, {}));
  const Result<wire::Generation> stored = store.stored_generation();
  REQUIRE(stored);
  CHECK(*stored == job.next->publication->generation);
}

TEST_CASE("a reload that finds no descriptor for its snapshot may succeed later") {
  Made made;
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none = {0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  made.maker.make(made.job, nullptr, nullptr);
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(made.job.next == nullptr);
  CHECK(made.job.answer->error == "cannot create a memfd for the snapshot: Too many open files");
  CHECK(made.job.answer->may_pass);
}
