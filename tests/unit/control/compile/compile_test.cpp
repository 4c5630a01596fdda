// The whole way: what compile() hands out.

#include "control/compile/compile.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <functional>

#include "common/files.h"
#include "control/compile/seal.h"
#include "filter/read/view.h"
#include "tests/unit/control/compile/make_policy.h"

namespace {

// A writer that keeps a memory file from being sealed, until so many were refused.
int refusals_left = 0;
std::function<void()> writer_ends;

}  // namespace

// Instead of the C library's.
int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  const int done = static_cast<int>(syscall(SYS_fcntl, fd, command, argument));
  if (command != F_ADD_SEALS || done == 0 || errno != EBUSY || refusals_left == 0) return done;
  if (--refusals_left == 0) writer_ends();
  errno = EBUSY;
  return done;
}

namespace weir::control {
namespace {

Policy small_policy() {
  return make_policy({make_list("own", WEIR_PASS, kEither, {"192.0.2.0/24", "192.0.2.1"}),
                      make_list("c2", WEIR_DROP, kDestination, {"203.0.113.7:443", "203.0.113.10-203.0.113.99"}),
                      make_list("v6", WEIR_DROP, kEither, {"2001:db8::/32", "2001:db8::1"})});
}

}  // namespace

TEST_CASE("a compiled policy: bytes, report, generation, digest") {
  const auto compiled = compile(small_policy(), {0xabc, 17});
  if (!compiled) FAIL(compiled.error());
  struct stat status {};
  REQUIRE(fstat(compiled->snapshot.get(), &status) == 0);
  CHECK(static_cast<uint64_t>(status.st_size) == compiled->size_bytes);
  const auto mapping = map_read_only(compiled->snapshot.get(), compiled->size_bytes);
  REQUIRE(mapping);
  const auto view = filter::SnapshotView::open(mapping->bytes());
  REQUIRE(view);
  CHECK(view->header().epoch == 0xabc);
  CHECK(view->header().number == 17);
  CHECK(view->header().built_unix_s > 1'600'000'000);
  CHECK(compiled->generation == wire::Generation{0xabc, 17});
  CHECK(compiled->digest == weir::digest_of(mapping->bytes()));

  const CompileReport& report = compiled->report;
  std::string phases, shapes;
  for (const PhaseTime& phase : report.phases) phases += std::string(phase.name) + " ";
  for (const ShapeReport& shape : report.shapes) shapes += shape.name + "; ";
  CHECK(phases == "merge index plan build prove seal ");
  CHECK(shapes == "v4 addr/32; v4 addr/32 + port; v6 addr/32; v6 addr/128; ");
  CHECK(report.entries == 6);
  CHECK(report.proved_entries == 6);
  CHECK(report.proved_strangers == 2 * 65536);
  CHECK(report.snapshot_bytes == compiled->size_bytes);
  CHECK(report.probes_v4 == 3);  // addr/32 on both sides, port as destination only
  CHECK(report.probes_v6 == 4);
}

TEST_CASE("every build has its own secret") {
  std::array<uint64_t, 2> secrets[2];
  for (auto& secret : secrets) {
    const auto compiled = compile(small_policy(), {1, 1});
    REQUIRE(compiled);
    const auto mapping = map_read_only(compiled->snapshot.get(), compiled->size_bytes);
    const auto view = filter::SnapshotView::open(mapping->bytes());
    secret = {view->header().secret[0], view->header().secret[1]};
  }
  CHECK(secrets[0][0] != secrets[1][0]);
  CHECK(secrets[0][1] != secrets[1][1]);
}

TEST_CASE("nobody can change a sealed snapshot") {
  const auto compiled = compile(small_policy(), {1, 1});
  REQUIRE(compiled);
  const int fd = compiled->snapshot.get();
  CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL));
  CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY);
  CHECK(write(fd, "x", 1) == -1);
  CHECK(mmap(nullptr, compiled->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);

  // Reopened for writing, which its owner may do, it is the seals that refuse.
  const Fd writable(open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(writable);
  CHECK((pwrite(writable.get(), "x", 1, 0) == -1 && errno == EPERM));
  CHECK((ftruncate(writable.get(), 4096) == -1 && errno == EPERM));
  CHECK((ftruncate(writable.get(), static_cast<off_t>(2 * compiled->size_bytes)) == -1 && errno == EPERM));
  CHECK(mmap(nullptr, compiled->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, writable.get(), 0) == MAP_FAILED);
  CHECK((fcntl(writable.get(), F_ADD_SEALS, F_SEAL_WRITE) == -1 && errno == EPERM));
}

TEST_CASE("a snapshot that somebody still writes to is sealed when that has ended") {
  constexpr uint64_t kBytes = 4096;
  Result<Draft> draft = make_draft(kBytes);
  REQUIRE(draft);
  void* const other = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, draft->fd.get(), 0);
  REQUIRE(other != MAP_FAILED);
  refusals_left = 3;
  writer_ends = [&] { munmap(other, kBytes); };
  const Result<Sealed> sealed = seal(std::move(*draft));
  REQUIRE(sealed);
  CHECK(refusals_left == 0);
  CHECK((fcntl(sealed->fd.get(), F_GET_SEALS) & F_SEAL_WRITE) != 0);
}

TEST_CASE("a policy without entries compiles: nothing matches") {
  const auto compiled = compile(make_policy({}), {1, 1});
  REQUIRE(compiled);
  CHECK(compiled->report.shapes.empty());
  CHECK(compiled->report.probes_v4 + compiled->report.probes_v6 == 0);
}

TEST_CASE("a policy that is too large is refused before anything is built") {
  Policy policy = small_policy();
  policy.memory_bytes = 4096;
  const auto compiled = compile(policy, {1, 1});
  REQUIRE_FALSE(compiled);
  CHECK(compiled.error().find("the snapshot needs ") == 0);
  CHECK_FALSE(compiled.failure().may_pass);
}

TEST_CASE("a snapshot that there is no descriptor for may be made later") {
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none = {0, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  const auto compiled = compile(small_policy(), {1, 1});
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE_FALSE(compiled);
  CHECK(compiled.error() == "cannot create a memfd for the snapshot: Too many open files");
  CHECK(compiled.failure().may_pass);
}

}  // namespace weir::control
