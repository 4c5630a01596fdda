#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "common/panic.h"
#include "common/paths.h"
#include "dataplane/serve/control.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/snapshots.h"
#include "tests/unit/eventually.h"
#include "tests/unit/folder.h"
#include "tests/unit/stale_socket.h"

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

constexpr uint64_t kMemory = uint64_t{16} << 20;
constexpr Publisher::Times kFast{std::chrono::milliseconds(20), std::chrono::milliseconds(20),
                                 std::chrono::milliseconds(200)};
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

Fd memory_file(std::span<const std::byte> bytes, int seals) {
  Fd fd(memfd_create("snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

wire::PublishBody body_for(std::span<const std::byte> bytes, wire::Generation generation) {
  wire::PublishBody body;
  body.generation = generation;
  const Digest digest = digest_of(bytes);
  memcpy(body.digest, digest.data(), sizeof body.digest);
  body.size_bytes = bytes.size();
  return body;
}

// A data plane without EAL: the control side of one, a worker that only reports quiescence, and a client.
class Plane {
 public:
  explicit Plane(const std::string& folder)
      : state_(std::move(*StateDir::open(folder + "/state"))),
        slot_(std::move(*SnapshotSlot::make(1))),
        publisher_(*slot_, ledger_, state_, {{-1}}, kMemory, kFast),
        switch_(switches_, state_),
        control_({workers_, publisher_, switch_, [] { return uint64_t{0}; }, 2, "scalar"}),
        listener_(std::move(*listen_on(folder + "/run/socket", false))),
        server_(listener_, {},
                [this](wire::Message request, Reply reply) { control_.answer(std::move(request), std::move(reply)); }),
        panic_listener_(std::move(*listen_on(panic_socket_of(folder + "/run/socket"), false))),
        panic_server_(panic_listener_, {},
                      [this](const wire::Message& request, Reply reply) { control_.panic(request, std::move(reply)); }),
        path_(folder + "/run/socket") {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    stop_read_.reset(ends[0]);
    stop_write_.reset(ends[1]);
    restored_ = publisher_.restore();
    publisher_thread_ = std::thread([this] { publisher_.run(); });
    disk_thread_ = std::thread([this] { switch_.run(); });
    thread_ = std::thread([this] {
      while (!server_.serve_once(stop_read_.get(), 100)) switch_.tick();
    });
    panic_thread_ = std::thread([this] { panic_server_.run(stop_read_.get()); });
    worker_ = std::thread([this] {
      slot_->online(0);
      while (!switches_.stop) {
        const bool in_burst = wants_burst_;
        in_burst_ = in_burst;
        if (!in_burst) slot_->quiescent(0);
      }
      slot_->offline(0);
    });
  }
  ~Plane() {
    stop_write_.reset();
    thread_.join();
    panic_thread_.join();
    publisher_.stop();
    switch_.stop();
    publisher_thread_.join();
    disk_thread_.join();
    switches_.stop = true;
    worker_.join();
  }

  Fd client() const {
    Result<Fd> fd = wire::connect(path_, 5000);
    INFO((fd ? "" : fd.error()));
    REQUIRE(fd);
    return std::move(*fd);
  }
  wire::PublishedBody publish(const wire::PublishBody& body, int fd) const {
    const Fd socket = client();
    const Result<wire::Message> answer = wire::call(socket.get(), wire::Type::publish, wire::bytes_of(body), fd);
    INFO((answer ? "" : answer.error()));
    REQUIRE(answer);
    return *wire::body_as<wire::PublishedBody>(*answer);
  }
  wire::PublishedBody publish(const SnapshotBytes& snapshot, uint64_t number) const {
    const Fd fd = memory_file(snapshot.bytes(), kAllSeals);
    return publish(body_for(snapshot.bytes(), {7, number}), fd.get());
  }
  wire::StatusBody status() const {
    const Fd socket = client();
    const Result<wire::Message> answer = wire::call(socket.get(), wire::Type::status);
    REQUIRE(answer);
    return *wire::body_as<wire::StatusBody>(*answer);
  }
  const Result<bool>& restored() const { return restored_; }
  const std::string& path() const { return path_; }
  std::string snapshot_path() const { return state_.snapshot_path(); }
  bool bypass() const { return switches_.bypass; }

  // The worker is in a burst, which ends when it is told to.
  void begin_burst() {
    wants_burst_ = true;
    while (!in_burst_) std::this_thread::yield();
  }
  void end_burst() { wants_burst_ = false; }

 private:
  std::atomic<bool> wants_burst_ = false, in_burst_ = false;
  StateDir state_;
  std::unique_ptr<SnapshotSlot> slot_;
  Ledger ledger_;
  Switches switches_;
  std::vector<Worker> workers_;
  Publisher publisher_;
  BypassSwitch switch_;
  Control control_;
  unix_socket::Listener listener_;
  Server server_;
  unix_socket::Listener panic_listener_;
  Server panic_server_;
  std::string path_;
  Fd stop_read_, stop_write_;
  Result<bool> restored_ = false;
  std::thread thread_, panic_thread_, publisher_thread_, disk_thread_, worker_;
};

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

void check_failure(const wire::PublishedBody& answer, wire::Step step, const std::string& words) {
  CHECK(answer.ok == 0);
  CHECK(std::string(wire::step_name(answer.failed_step)) == wire::step_name(step));
  CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::Contains(words));
  CHECK(answer.generation == wire::Generation{7, 1});  // the old one keeps enforcing
}

}  // namespace

namespace {
std::atomic<int> bypass_renames = 0;  // of files that take the place of `bypass`
}

// Instead of the C library's.
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (std::string_view(to) == "bypass") bypass_renames++;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}
int fsync(int fd) {
  while (Disk::now == Disk::hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (Disk::now == Disk::works) return static_cast<int>(syscall(SYS_fsync, fd));
  errno = ENOSPC;
  return -1;
}

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
  const auto size = std::filesystem::file_size(path);
  SECTION("one byte changed") {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(size / 2));
    file.put('\x55');
  }
  SECTION("shorter") {
    std::filesystem::resize_file(path, size - 1);
  }
  SECTION("nearly nothing") {
    std::filesystem::resize_file(path, 3);
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
  REQUIRE(fcntl(huge.get(), F_ADD_SEALS, kAllSeals) == 0);
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

TEST_CASE("hostile messages are refused in words, and the next client is served") {
  const Folder folder;
  const Plane plane(folder.path());
  const auto refusal = [&](std::span<const std::byte> packet) {
    const Fd socket = plane.client();
    REQUIRE(send(socket.get(), packet.data(), packet.size(), 0) == static_cast<ssize_t>(packet.size()));
    const Result<wire::Message> answer = wire::receive(socket.get());
    REQUIRE(answer);
    CHECK(answer->header.type == static_cast<uint16_t>(wire::Type::refused));
    return wire::get_text(wire::body_as<wire::TextBody>(*answer)->text);
  };
  std::vector<std::byte> status = wire::encode(wire::Type::status, 1, {});
  const std::vector<std::byte> too_long(wire::kMaxMessageBytes + 1);
  CHECK_THAT(refusal(std::span(status).first(5)), Catch::Matchers::Contains("shorter than its header"));
  CHECK_THAT(refusal(too_long), Catch::Matchers::Contains("longer than the limit"));
  CHECK_THAT(refusal(wire::encode(wire::Type::status, 1, std::span(status))), Catch::Matchers::Contains("no body"));
  CHECK_THAT(refusal(wire::encode(wire::Type::bypass, 1, {})), Catch::Matchers::Contains("0 or 1"));
  CHECK_THAT(refusal(wire::encode(wire::Type::refused, 1, {})), Catch::Matchers::Contains("no request"));
  status[4] = std::byte{9};
  CHECK_THAT(refusal(status), Catch::Matchers::Contains("version 9"));
  CHECK(plane.status().workers == 0);
}

TEST_CASE("silent clients do not keep others out") {
  const Folder folder;
  const Plane plane(folder.path());
  std::vector<Fd> silent;
  for (size_t i = 0; i < kMaxClients; i++) silent.push_back(plane.client());
  CHECK(plane.status().ports == 2);
  const Result<wire::Message> told = wire::receive(silent.front().get());
  REQUIRE(told);
  CHECK(told->header.type == static_cast<uint16_t>(wire::Type::refused));
  const Result<wire::Message> other = wire::call(silent.back().get(), wire::Type::status);
  CHECK(other);
}

TEST_CASE("bypass is switched and remembered") {
  const Folder folder;
  {
    const Plane plane(folder.path());
    const Fd socket = plane.client();
    const wire::BypassBody on = {1, 0};
    const Result<wire::Message> answer = wire::call(socket.get(), wire::Type::bypass, wire::bytes_of(on));
    REQUIRE(answer);
    CHECK(wire::body_as<wire::StatusBody>(*answer)->bypass == 1);
  }
  const Result<StateDir> state = StateDir::open(folder.path() + "/state");
  REQUIRE(state);
  REQUIRE(state->load_bypass());
  CHECK(*state->load_bypass());
  std::ofstream(folder.path() + "/state/bypass") << "maybe";
  CHECK_FALSE(state->load_bypass());
}

TEST_CASE("one data plane per socket and per state folder; a dead one's socket is replaced") {
  const Folder folder;
  const std::string path = folder.path() + "/run/socket";
  {
    const Plane plane(folder.path());
    const Result<unix_socket::Listener> second = listen_on(path, false);
    REQUIRE_FALSE(second);
    CHECK_THAT(second.error(), Catch::Matchers::Contains("another program answers"));
    const Result<StateDir> state = StateDir::open(folder.path() + "/state");
    REQUIRE_FALSE(state);
    CHECK_THAT(state.error(), Catch::Matchers::Contains("in use by another data plane"));
  }
  CHECK_FALSE(std::filesystem::exists(path));  // a clean stop leaves none behind
  leave_socket(path, SOCK_SEQPACKET);
  CHECK(listen_on(path, false));
  std::ofstream(path) << "not a socket";
  CHECK_FALSE(listen_on(path, false));
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
  CHECK_THAT(wire::get_text(publish_more(plane).reason), Catch::Matchers::Contains("others wait"));
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
    CHECK_THAT(wire::get_text(status->disk_error), Catch::Matchers::Contains("disk has not answered"));
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
    CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::Contains("No space left"));
    CHECK(plane.status().snapshot_durable == 0);
    CHECK_THAT(wire::get_text(plane.status().disk_error), Catch::Matchers::Contains("No space left"));
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

TEST_CASE("nothing older of its epoch replaces what is enforced, unless that is asked for") {
  const Folder folder;
  const Plane plane(folder.path());
  REQUIRE(plane.publish(build(empty_input(5)), 5).ok == 1);
  const SnapshotBytes older = build(empty_input(4));
  const wire::PublishedBody refused = plane.publish(older, 4);
  CHECK(refused.ok == 0);
  CHECK(refused.generation == wire::Generation{7, 5});
  CHECK_THAT(wire::get_text(refused.reason), Catch::Matchers::Contains("older than 5"));
  for (const wire::Generation nobodys : {wire::Generation{0, 0}, {7, 0}, {0, 9}, {7, UINT64_MAX}}) {
    const Fd fd = memory_file(older.bytes(), kAllSeals);
    const wire::PublishedBody answer = plane.publish(body_for(older.bytes(), nobodys), fd.get());
    CHECK(answer.ok == 0);
    CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::Contains("no generation is called"));
  }
  wire::PublishBody body = body_for(older.bytes(), {7, 4});
  body.allow_older = 1;
  const Fd fd = memory_file(older.bytes(), kAllSeals);
  CHECK(plane.publish(body, fd.get()).ok == 1);
  CHECK(plane.status().generation == wire::Generation{7, 4});
}

TEST_CASE("a worker that is stuck holds the grace period for a while, and nobody") {
  const Folder folder;
  Plane plane(folder.path());
  REQUIRE(plane.publish(build(empty_input(1)), 1).ok == 1);
  plane.begin_burst();
  const wire::PublishedBody answer = plane.publish(build(empty_input(2)), 2);
  CHECK(answer.ok == 1);
  CHECK_THAT(wire::get_text(answer.reason), Catch::Matchers::Contains("not let go"));
  CHECK(plane.status().generation == wire::Generation{7, 2});
  const wire::PublishedBody next = plane.publish(build(empty_input(3)), 3);
  CHECK(next.ok == 0);
  CHECK(next.failed_step == wire::Step::grace);
  plane.end_burst();
  CHECK(eventually([&] { return plane.publish(build(empty_input(3)), 3).ok == 1; }));
}
