// Publications: what is enforced afterwards, and what is refused and changes nothing.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/dataplane/plane.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

void check_failure(const wire::PublishedBody& answer, wire::Step step, const std::string& words) {
  CHECK(answer.ok == 0);
  CHECK(std::string(wire::step_name(answer.failed_step)) == wire::step_name(step));
  CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::ContainsSubstring(words));
  CHECK(answer.generation == wire::Generation{7, 1});  // the old one keeps enforcing
}

}  // namespace

TEST_CASE("a good snapshot is enforced, durable, and survives a restart") {
  const Folder folder;
  const SnapshotBytes snapshot = build(empty_input(1));
  {
    const Plane plane(folder.path());
    REQUIRE(plane.restored());
    CHECK_FALSE(*plane.restored());
    CHECK(plane.status().generation == wire::Generation{});
    const wire::PublishedBody answer = plane.publish(snapshot, 1);
    CHECK(wire::get_text(answer.reason) == "");
    CHECK(answer.ok == 1);
    CHECK(answer.generation == wire::Generation{7, 1});
    const wire::StatusBody status = plane.status();
    CHECK(status.generation == wire::Generation{7, 1});
    CHECK(status.snapshot_bytes == snapshot.size);
    CHECK(status.snapshot_limit_bytes == kMemory / 2);

    const auto saved_at = std::filesystem::last_write_time(plane.snapshot_path());
    CHECK(plane.publish(snapshot, 1).ok == 1);  // again: acknowledged without work
    CHECK(std::filesystem::last_write_time(plane.snapshot_path()) == saved_at);
    CHECK((std::filesystem::status(plane.snapshot_path()).permissions() & std::filesystem::perms::all) ==
          (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  }
  const Plane again(folder.path());
  REQUIRE(again.restored());
  CHECK(*again.restored());
  CHECK(again.status().generation == wire::Generation{7, 1});
}

TEST_CASE("a damaged last good snapshot is refused, at every kind of damage") {
  const Folder folder;
  std::string path;
  {
    const Plane plane(folder.path());
    REQUIRE(plane.publish(build(empty_input(1)), 1).ok == 1);
    path = plane.snapshot_path();
  }
  SECTION("as any file may be") {
    damage(path);
  }
  SECTION("larger than the memory") {
    std::filesystem::resize_file(path, kMemory);
  }
  const Plane plane(folder.path());
  CHECK_FALSE(plane.restored());
  CHECK(plane.status().generation == wire::Generation{});
  CHECK(plane.publish(build(empty_input(1)), 1).ok == 1);
}

TEST_CASE("hostile publications fail by name and change nothing") {
  const Folder folder;
  const Plane plane(folder.path());
  REQUIRE(plane.publish(build(empty_input(1)), 1).ok == 1);
  SnapshotBytes next = build(empty_input(2));
  const wire::PublishBody body = body_for(next.bytes(), {7, 2});
  auto* header = reinterpret_cast<weir_snapshot_header*>(next.memory.get());

  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_WRITE, F_SEAL_SEAL}) {
    const Fd fd = memory_file(next.bytes(), kAllSeals & ~missing);
    check_failure(plane.publish(body, fd.get()), wire::Step::check, "lacks seals");
  }
  const Fd plain(open((folder.path() + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  check_failure(plane.publish(body, plain.get()), wire::Step::check, "not a memory file");
  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  check_failure(plane.publish(body, null.get()), wire::Step::check, "not a memory file");
  check_failure(plane.publish(body, -1), wire::Step::receive, "without a descriptor");

  const Fd empty = memory_file({}, kAllSeals);
  check_failure(plane.publish(body, empty.get()), wire::Step::check, "shorter than a snapshot header");
  const Fd shorter = memory_file(next.bytes().first(next.size - 4096), kAllSeals);
  check_failure(plane.publish(body, shorter.get()), wire::Step::check, "header says");
  const Fd huge(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(ftruncate(huge.get(), static_cast<off_t>(kMemory / 2 + 4096)) == 0);
  REQUIRE(add_seals(huge.get(), kAllSeals) == 0);
  check_failure(plane.publish(body, huge.get()), wire::Step::check, "snapshot_memory allows 8388608");

  wire::PublishBody wrong_digest = body;
  wrong_digest.digest[1] ^= 1;
  const Fd whole = memory_file(next.bytes(), kAllSeals);
  check_failure(plane.publish(wrong_digest, whole.get()), wire::Step::validate, "digest");
  wire::PublishBody wrong_generation = body;
  wrong_generation.generation.number = 3;
  check_failure(plane.publish(wrong_generation, whole.get()), wire::Step::validate, "generation");
  wire::PublishBody reused = body;
  reused.generation.number = 1;
  check_failure(plane.publish(reused, whole.get()), wire::Step::check, "used once");

  header->version++;
  const Fd version = memory_file(next.bytes(), kAllSeals);
  check_failure(plane.publish(body_for(next.bytes(), {7, 2}), version.get()), wire::Step::check,
                "version " + std::to_string(WEIR_SNAPSHOT_VERSION));
  header->version--;
  header->rules.offset = uint64_t{1} << 60;
  const Fd offset = memory_file(next.bytes(), kAllSeals);
  check_failure(plane.publish(body_for(next.bytes(), {7, 2}), offset.get()), wire::Step::validate, "");
  CHECK(plane.status().generation == wire::Generation{7, 1});
}

TEST_CASE("nothing older of its epoch replaces what is enforced, unless that is asked for") {
  const Folder folder;
  const Plane plane(folder.path());
  REQUIRE(plane.publish(build(empty_input(5)), 5).ok == 1);
  const SnapshotBytes older = build(empty_input(4));
  const wire::PublishedBody refused = plane.publish(older, 4);
  CHECK(refused.ok == 0);
  CHECK(refused.generation == wire::Generation{7, 5});
  CHECK_THAT(wire::get_text(refused.reason), Catch::Matchers::ContainsSubstring("older than 5"));
  for (const wire::Generation nobodys : {wire::Generation{0, 0}, {7, 0}, {0, 9}, {7, UINT64_MAX}}) {
    const Fd fd = memory_file(older.bytes(), kAllSeals);
    const wire::PublishedBody answer = plane.publish(body_for(older.bytes(), nobodys), fd.get());
    CHECK(answer.ok == 0);
    CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::ContainsSubstring("no generation is called"));
  }
  wire::PublishBody body = body_for(older.bytes(), {7, 4});
  body.allow_older = 1;
  const Fd fd = memory_file(older.bytes(), kAllSeals);
  CHECK(plane.publish(body, fd.get()).ok == 1);
  CHECK(plane.status().generation == wire::Generation{7, 4});
}

TEST_CASE("a worker that is stuck holds the grace period for a while, and nobody") {
  const Folder folder;
  Plane plane(folder.path(), kHasty);
  REQUIRE(plane.publish(build(empty_input(1)), 1).ok == 1);
  plane.begin_burst();
  const wire::PublishedBody answer = plane.publish(build(empty_input(2)), 2);
  CHECK(answer.ok == 1);
  CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::ContainsSubstring("not let go"));
  CHECK(plane.status().generation == wire::Generation{7, 2});
  const wire::PublishedBody next = plane.publish(build(empty_input(3)), 3);
  CHECK(next.ok == 0);
  CHECK(next.failed_step == wire::Step::grace);
  plane.end_burst();
  CHECK(eventually([&] { return plane.publish(build(empty_input(3)), 3).ok == 1; }));
}
