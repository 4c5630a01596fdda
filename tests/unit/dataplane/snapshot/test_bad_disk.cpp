// A disk that hangs, is full, or holds what a write that ended early has left.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/unit/dataplane/plane.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::dataplane;
using namespace weir::test;

namespace {

// What the disk does, in this program.
class Disk {
 public:
  enum State { works, hangs, full };
  explicit Disk(State state) { set(state); }
  ~Disk() { set(works); }
  void set(State state) const { now = state; }
  static inline std::atomic<State> now = works;
};

std::atomic<int> bypass_renames = 0;  // of files that take the place of `bypass`

// More than may wait to be published.
wire::PublishedBody publish_more(const Plane& plane) {
  static std::vector<Fd> clients;
  const SnapshotBytes snapshot = build(empty_input(9));
  const Fd bytes = memory_file(snapshot.bytes(), kAllSeals);
  for (size_t i = 0; i < Publisher::kMaxWaiting; i++) {
    clients.push_back(plane.client());
    REQUIRE(wire::send(clients.back().get(), wire::Type::publish, 1, wire::bytes_of(body_for(snapshot.bytes(), {7, 9})),
                       bytes.get()));
    REQUIRE(wire::send(clients.back().get(), wire::Type::status, 2, {}));
    REQUIRE(wire::receive(clients.back().get()));  // of the status: what was sent before it is taken
  }
  return plane.publish(snapshot, 9);
}

}  // namespace

// Instead of the C library's.
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (std::string_view(to) == "bypass") bypass_renames++;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
int fsync(int fd) {
  while (Disk::now == Disk::hangs) a_moment();
  if (Disk::now == Disk::works) return static_cast<int>(syscall(SYS_fsync, fd));
  errno = ENOSPC;
  return -1;
}

TEST_CASE("nobody waits for a publication that waits for the disk") {
  const Folder folder;
  const SnapshotBytes snapshot = build(empty_input(1));
  const Plane plane(folder.path());
  const Fd client = plane.client();
  const Fd bytes = memory_file(snapshot.bytes(), kAllSeals);
  const Disk disk(Disk::hangs);
  REQUIRE(wire::send(client.get(), wire::Type::publish, 1, wire::bytes_of(body_for(snapshot.bytes(), {7, 1})),
                     bytes.get()));
  CHECK(eventually([&] { return std::filesystem::exists(plane.snapshot_path() + ".new"); }));
  REQUIRE(wire::send(client.get(), wire::Type::stats, 2, {}));  // also on the connection that asked for it
  const Result<wire::Message> stats = wire::receive(client.get());
  REQUIRE(stats);
  CHECK(stats->header.sequence == 2);
  CHECK(plane.status().generation == wire::Generation{});
  CHECK_THAT(wire::get_text(publish_more(plane).reason), Catch::Matchers::ContainsSubstring("others wait"));
  const Result<Fd> panic = wire::connect_panic(plane.path(), 10'000);
  REQUIRE(panic);
  bypass_renames = 0;
  for (const uint32_t on : {1u, 0u, 1u}) {
    const wire::BypassBody body{on, 0};
    REQUIRE(wire::send(panic->get(), wire::Type::bypass, 3, wire::bytes_of(body)));
    CHECK(eventually([&] { return plane.bypass() == (on != 0); }));  // none waits for the one before
  }
  for (int order = 0; order < 3; order++) {
    const Result<wire::Message> answer = wire::receive(panic->get());
    REQUIRE(answer);
    const auto status = wire::body_as<wire::StatusBody>(*answer);
    REQUIRE(status);
    CHECK(status->bypass == 1);
    CHECK(status->bypass_durable == 0);
    CHECK_THAT(wire::get_text(status->disk_error), Catch::Matchers::ContainsSubstring("disk has not answered"));
  }
  CHECK_FALSE(wire::call(panic->get(), wire::Type::stats));  // it knows nothing else
  disk.set(Disk::works);
  const Result<wire::Message> published = wire::receive(client.get());
  REQUIRE(published);
  CHECK(wire::body_as<wire::PublishedBody>(*published)->ok == 1);
  CHECK(eventually([&] { return plane.status().bypass_durable == 1; }));
  CHECK(plane.status().disk_error[0] == '\0');
  CHECK(bypass_renames == 1);  // the last order alone: what was taken back while the disk hung is never there
}

TEST_CASE("what is valid is enforced on a full disk, too, and written as soon as there is room") {
  const Folder folder;
  {
    const Plane plane(folder.path());
    REQUIRE(plane.publish(build(empty_input(1)), 1).durable == 1);
    const Disk disk(Disk::full);
    const wire::PublishedBody answer = plane.publish(build(empty_input(2)), 2);
    CHECK(answer.ok == 1);
    CHECK(answer.durable == 0);
    CHECK(answer.generation == wire::Generation{7, 2});
    CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::ContainsSubstring("No space left"));
    CHECK(plane.status().snapshot_durable == 0);
    CHECK_THAT(wire::get_text(plane.status().disk_error), Catch::Matchers::ContainsSubstring("No space left"));
    const Fd socket = plane.client();
    const wire::BypassBody on = {1, 0};
    const Result<wire::Message> ordered = wire::call(socket.get(), wire::Type::bypass, wire::bytes_of(on));
    REQUIRE(ordered);
    CHECK(wire::body_as<wire::StatusBody>(*ordered)->bypass == 1);
    CHECK(wire::body_as<wire::StatusBody>(*ordered)->bypass_durable == 0);
    for (const auto& file : std::filesystem::directory_iterator(folder.path() + "/state")) {
      CHECK(file.path().extension() != ".new");
    }
    disk.set(Disk::works);
    CHECK(eventually([&] { return plane.status().snapshot_durable == 1 && plane.status().bypass_durable == 1; }));
    CHECK(plane.status().disk_error[0] == '\0');
  }
  const Plane again(folder.path());
  CHECK(again.status().generation == wire::Generation{7, 2});
  const Result<StateDir> second = StateDir::open(folder.path() + "/state");
  CHECK_FALSE(second);
}

TEST_CASE("what a write that ended early left hinders no other") {
  const Folder folder;
  const Plane plane(folder.path());
  const std::string left = plane.snapshot_path() + ".new";
  SECTION("a file") {
    std::ofstream(left) << "half";
  }
  SECTION("a folder") {
    std::filesystem::create_directory(left);
  }
  SECTION("a folder that holds something") {
    std::filesystem::create_directories(left + "/more");
  }
  SECTION("a link") {
    std::filesystem::create_symlink(folder.path() + "/elsewhere", left);
  }
  SECTION("a pipe") {
    REQUIRE(mkfifo(left.c_str(), 0600) == 0);
  }
  CHECK(plane.publish(build(empty_input(1)), 1).durable == 1);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/elsewhere"));
}
