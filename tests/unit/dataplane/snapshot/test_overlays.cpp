// Publications of overlays: with their base, without it, and what a restart finds, wherever the writing stopped.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tests/unit/dataplane/plane.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

using Base = Plane::Base;

// So many calls that change a folder work, and none behind them, as if the program had ended there. -1: all work.
std::atomic<int> changes_left = -1;

bool is_over() {
  if (changes_left < 0) return false;
  if (changes_left == 0) return errno = EIO, true;
  changes_left--;
  return false;
}

// `hosts` of 10.0.0.1 and up are on the first list.
filter::SnapshotInput hosts_input(uint64_t number, uint32_t hosts) {
  filter::SnapshotInput input = empty_input(number);
  input.sets.push_back({{1}});
  input.rules.push_back({1, 0, 0, 0});
  filter::KeyTable table;
  table.shape = {4, 32, false};
  table.asked = WEIR_AS_SOURCE;
  for (uint32_t i = 1; i <= hosts; i++) {
    table.words[0].push_back(filter::make_key(table.shape, Ipv4{0x0a000000 + i}).word[0]);
    table.rules.push_back(1);
  }
  input.tables = {table};
  return input;
}

SnapshotBytes base_of(uint64_t number) {
  return build(hosts_input(number, 2));
}
SnapshotBytes overlay_on(const SnapshotBytes& base, uint64_t number, uint32_t hosts = 3) {
  return build(hosts_input(number, hosts), &base);
}

struct State {
  uint64_t number, base;
  bool operator==(const State&) const = default;
};
State state_of(const wire::StatusBody& status) {
  return {status.generation.number, status.base.number};
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/state")) {
    const std::string name = entry.path().filename().string();
    if (name != "lock") names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Files = std::vector<std::string>;
const std::string kOverlayOf1 = "overlay-0000000000000007-1.weir", kOverlayOf5 = "overlay-0000000000000007-5.weir";

}  // namespace

// Instead of the C library's.
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return is_over() ? -1 : static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
int unlinkat(int folder, const char* name, int flags) noexcept {
  return is_over() ? -1 : static_cast<int>(syscall(SYS_unlinkat, folder, name, flags));
}
int fsync(int fd) {
  return is_over() ? -1 : static_cast<int>(syscall(SYS_fsync, fd));
}

TEST_CASE("an overlay is enforced on its base, is told of, and survives a restart") {
  const Folder folder;
  const SnapshotBytes base = base_of(1), overlay = overlay_on(base, 2);
  {
    const Plane plane(folder.path());
    REQUIRE(plane.publish(base, 1).ok == 1);
    const wire::StatusBody before = plane.status();
    CHECK(before.base == before.generation);
    CHECK(std::equal(before.digest, before.digest + 2, before.base_digest));
    CHECK(before.overlay_bytes == 0);

    const wire::PublishedBody answer = plane.publish(overlay, 2, base, Base::stays);
    CHECK(wire::get_text(answer.reason) == "");
    CHECK(answer.ok == 1);
    CHECK(answer.durable == 1);
    CHECK(answer.generation == wire::Generation{7, 2});
    CHECK(plane.publish(overlay, 2, base, Base::stays).ok == 1);  // again: acknowledged without work
    CHECK(files_in(folder.path()) == Files{kOverlayOf1, "snapshot.weir"});
  }
  const Plane again(folder.path());
  const wire::StatusBody status = again.status();
  CHECK(state_of(status) == State{2, 1});
  CHECK(status.snapshot_bytes == base.size);
  CHECK(status.overlay_bytes == overlay.size);
  CHECK(status.overlay_keys == 3);
  const wire::PublishBody body = body_for(overlay.bytes(), {7, 2}, base.bytes());
  CHECK(memcmp(status.digest, body.digest, sizeof body.digest) == 0);
  CHECK(memcmp(status.base_digest, body.base_digest, sizeof body.base_digest) == 0);
  CHECK(status.snapshot_durable == 1);

  // The next one replaces it, as a whole; a snapshot drops it.
  CHECK(again.publish(overlay_on(base, 3, 9), 3, base, Base::stays).ok == 1);
  CHECK(again.status().overlay_keys == 9);
  CHECK(again.publish(base_of(4), 4).ok == 1);
  CHECK(state_of(again.status()) == State{4, 4});
  CHECK(files_in(folder.path()) == Files{"snapshot.weir"});
}

TEST_CASE("who lacks the base asks for it, and takes both at once") {
  const Folder folder;
  const SnapshotBytes base = base_of(1), overlay = overlay_on(base, 2);
  {
    const Plane plane(folder.path());
    const auto check_asks = [&](const SnapshotBytes& of, uint64_t number, const SnapshotBytes& on) {
      const wire::PublishedBody answer = plane.publish(of, number, on, Base::stays);
      CHECK(answer.ok == 0);
      CHECK(answer.needs_base == 1);
      CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::ContainsSubstring("not enforced here"));
    };
    check_asks(overlay, 2, base);
    const wire::PublishedBody answer = plane.publish(overlay, 2, base, Base::comes_along);
    CHECK(answer.ok == 1);
    CHECK(answer.needs_base == 0);
    CHECK(state_of(plane.status()) == State{2, 1});

    const SnapshotBytes next_base = base_of(5), next = overlay_on(next_base, 6);
    check_asks(next, 6, next_base);
    CHECK(state_of(plane.status()) == State{2, 1});
    CHECK(plane.publish(next, 6, next_base, Base::comes_along).ok == 1);
    CHECK(plane.publish(overlay_on(next_base, 7), 7, next_base, Base::comes_along).ok == 1);  // it was there already
    CHECK(state_of(plane.status()) == State{7, 5});
    CHECK(files_in(folder.path()) == Files{kOverlayOf5, "snapshot.weir"});
  }
  CHECK(state_of(Plane(folder.path()).status()) == State{7, 5});
}

TEST_CASE("a base without its overlay again, when something older is asked for") {
  const Folder folder;
  const SnapshotBytes base = base_of(1);
  {
    const Plane plane(folder.path());
    REQUIRE(plane.publish(overlay_on(base, 2), 2, base, Base::comes_along).ok == 1);
    CHECK(plane.publish(base, 1).ok == 0);
    wire::PublishBody body = body_for(base.bytes(), {7, 1});
    body.allow_older = 1;
    const Fd fd = memory_file(base.bytes(), kAllSeals);
    CHECK(plane.publish(body, fd.get()).ok == 1);
    CHECK(state_of(plane.status()) == State{1, 1});
  }
  CHECK(state_of(Plane(folder.path()).status()) == State{1, 1});
}

TEST_CASE("hostile overlays fail by name and change nothing") {
  const Folder folder;
  const Plane plane(folder.path());
  const SnapshotBytes base = base_of(1), overlay = overlay_on(base, 2);
  REQUIRE(plane.publish(overlay, 2, base, Base::comes_along).ok == 1);
  const auto check_refused = [&](const wire::PublishBody& body, const SnapshotBytes& bytes, const SnapshotBytes* on,
                                 const std::string& words) {
    const Fd fd = memory_file(bytes.bytes(), kAllSeals);
    const Fd base_fd = on != nullptr ? memory_file(on->bytes(), kAllSeals) : Fd();
    const wire::PublishedBody answer = plane.publish(body, fd.get(), base_fd.get());
    CHECK(answer.ok == 0);
    CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::ContainsSubstring(words));
    CHECK(state_of(plane.status()) == State{2, 1});
  };
  const SnapshotBytes next = overlay_on(base, 3);
  check_refused(body_for(next.bytes(), {7, 3}), next, nullptr, "in the place of a snapshot");
  const SnapshotBytes whole = base_of(3);
  check_refused(body_for(whole.bytes(), {7, 3}, base.bytes()), whole, nullptr, "made for number 0");
  check_refused(body_for(next.bytes(), {7, 4}, base.bytes()), next, nullptr, "generation");

  const SnapshotBytes foreign_base = build(hosts_input(1, 4)), foreign = overlay_on(foreign_base, 3);
  check_refused(body_for(foreign.bytes(), {7, 3}, base.bytes()), foreign, nullptr, "other bytes");
  check_refused(body_for(next.bytes(), {7, 3}, foreign_base.bytes()), next, &foreign_base, "other bytes");
  check_refused(body_for(next.bytes(), {7, 3}, foreign_base.bytes()), next, &base, "digest");
  filter::SnapshotInput other_secret = hosts_input(3, 3);
  other_secret.secret = {1, 2};
  const SnapshotBytes of_other_secret = build(other_secret, &base);
  check_refused(body_for(of_other_secret.bytes(), {7, 3}, base.bytes()), of_other_secret, nullptr, "secrets differ");

  // Each has room for itself, and both together have none.
  const SnapshotBytes large_base = build(hosts_input(5, 200'000)), large = overlay_on(large_base, 6, 500'000);
  REQUIRE(large.size < kMemory / 2);
  check_refused(body_for(large.bytes(), {7, 6}, large_base.bytes()), large, &large_base, "snapshot_memory allows");
}

TEST_CASE("an overlay that was damaged on disk is said, kept aside, and its base enforced") {
  const Folder folder;
  const SnapshotBytes base = base_of(1), overlay = overlay_on(base, 2);
  std::string path;
  {
    const Plane plane(folder.path());
    REQUIRE(plane.publish(overlay, 2, base, Base::comes_along).ok == 1);
    path = plane.overlay_path({7, 1});
  }
  SECTION("as any file may be") {
    damage(path);
  }
  SECTION("of another base") {
    const SnapshotBytes other_base = build(hosts_input(1, 5)), other = overlay_on(other_base, 2);
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(other.memory.get()), static_cast<std::streamsize>(other.size));
    const Digest digest = digest_of(other.bytes());
    file.write(reinterpret_cast<const char*>(digest.data()), sizeof digest);
  }
  const Plane plane(folder.path());
  CHECK(state_of(plane.status()) == State{1, 1});
  CHECK(files_in(folder.path()) == Files{"overlay.damaged", "snapshot.weir"});
  CHECK(plane.publish(overlay, 2, base, Base::stays).ok == 1);
  CHECK(state_of(plane.status()) == State{2, 1});
}

// What each publication may leave on the disk when it ends early: what was acknowledged before it, or itself.
TEST_CASE("wherever the writing stops, a restart finds what was acknowledged or what came after it") {
  const SnapshotBytes base = base_of(1), overlay = overlay_on(base, 2);
  const SnapshotBytes next_base = base_of(5);
  struct Change {
    const char* name;
    const SnapshotBytes next;
    uint64_t number;
    const SnapshotBytes* base;
    State after;
  };
  Change changes[] = {{"an overlay for another", overlay_on(base, 3), 3, &base, {3, 1}},
                      {"a snapshot", base_of(4), 4, nullptr, {4, 4}},
                      {"a base with its overlay", overlay_on(next_base, 6), 6, &next_base, {6, 5}},
                      {"the base alone", base_of(1), 1, nullptr, {1, 1}}};
  for (const Change& change : changes) {
    bool was_complete = false;
    for (int step = 0; !was_complete; step++) {
      INFO(change.name << ", step " << step);
      REQUIRE(step < 20);
      const Folder folder;
      {
        const Plane plane(folder.path(), {std::chrono::hours(1), std::chrono::seconds(1), std::chrono::seconds(1)});
        REQUIRE(plane.publish(overlay, 2, base, Base::comes_along).durable == 1);
        wire::PublishBody body = change.base == nullptr
                                     ? body_for(change.next.bytes(), {7, change.number})
                                     : body_for(change.next.bytes(), {7, change.number}, change.base->bytes());
        body.allow_older = 1;
        const Fd fd = memory_file(change.next.bytes(), kAllSeals);
        const Fd base_fd = change.base != nullptr ? memory_file(change.base->bytes(), kAllSeals) : Fd();
        changes_left = step;
        const wire::PublishedBody answer = plane.publish(body, fd.get(), base_fd.get());
        was_complete = answer.durable == 1;
        changes_left = 0;  // the program is gone: what it would clean up stays
        CHECK(answer.ok == 1);
      }
      changes_left = -1;
      const Plane again(folder.path());
      REQUIRE(again.restored());
      const State found = state_of(again.status());
      CHECK((found == change.after || (found == State{2, 1} && !was_complete)));
      CHECK_FALSE(std::filesystem::exists(folder.path() + "/state/overlay.damaged"));
      // And goes on from there.
      const SnapshotBytes last_base = base_of(8), last = overlay_on(last_base, 9);
      CHECK(again.publish(last, 9, last_base, Base::comes_along).durable == 1);
      CHECK(files_in(folder.path()) == Files{"overlay-0000000000000007-8.weir", "snapshot.weir"});
    }
  }
}

TEST_CASE("an overlay and its base are written again until both are on disk") {
  const Folder folder;
  const SnapshotBytes base = base_of(1), overlay = overlay_on(base, 2), next = overlay_on(base, 3, 5);
  {
    const Plane plane(folder.path());
    changes_left = 0;
    const wire::PublishedBody both = plane.publish(overlay, 2, base, Base::comes_along);
    CHECK(both.ok == 1);
    CHECK(both.durable == 0);
    const wire::PublishedBody alone = plane.publish(next, 3, base, Base::stays);  // its base is not on disk yet
    CHECK(alone.ok == 1);
    CHECK(alone.durable == 0);
    CHECK_FALSE(std::filesystem::exists(plane.snapshot_path()));
    changes_left = -1;
    CHECK(eventually([&] { return plane.status().snapshot_durable == 1; }));
  }
  const Plane again(folder.path());
  CHECK(state_of(again.status()) == State{3, 1});
  CHECK(again.status().overlay_keys == 5);
}
