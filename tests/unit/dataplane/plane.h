#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "common/files.h"
#include "common/panic.h"
#include "common/paths.h"
#include "dataplane/serve/control.h"
#include "tests/catch.h"
#include "tests/unit/dataplane/snapshots.h"

// A data plane that is spoken to: published to, asked, switched to bypass.
namespace weir::dataplane {

inline constexpr uint64_t kMemory = uint64_t{16} << 20;
// Patient with a worker: a busy machine may stop its thread for long.
inline constexpr Publisher::Times kPatient{std::chrono::milliseconds(20), std::chrono::milliseconds(20),
                                           std::chrono::seconds(20)};
inline constexpr Publisher::Times kHasty{std::chrono::milliseconds(20), std::chrono::milliseconds(20),
                                         std::chrono::milliseconds(200)};
inline constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

inline Fd memory_file(std::span<const std::byte> bytes, int seals) {
  Fd fd(memfd_create("snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  REQUIRE(add_seals(fd.get(), seals) == 0);
  return fd;
}

// base: of an overlay; empty: there is none.
inline wire::PublishBody body_for(std::span<const std::byte> bytes, wire::Generation generation,
                                  std::span<const std::byte> base = {}) {
  wire::PublishBody body;
  body.generation = generation;
  const Digest digest = digest_of(bytes);
  memcpy(body.digest, digest.data(), sizeof body.digest);
  if (!base.empty()) {
    const auto* header = reinterpret_cast<const weir_snapshot_header*>(base.data());
    body.base = {header->epoch, header->number};
    const Digest base_digest = digest_of(base);
    memcpy(body.base_digest, base_digest.data(), sizeof body.base_digest);
  }
  body.size_bytes = bytes.size();
  return body;
}

// One kind of damage to a saved file, in a section of its own.
inline void damage(const std::string& path) {
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
}

// A data plane without EAL: the control side of one, a worker that only reports quiescence, and a client.
class Plane {
 public:
  explicit Plane(const std::string& folder, Publisher::Times times = kPatient)
      : state_(std::move(*StateDir::open(folder + "/state"))),
        slot_(std::move(*SnapshotSlot::make(1))),
        publisher_(*slot_, ledger_, state_, {{-1}}, kMemory, times),
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
    Result<Fd> fd = wire::connect(path_, 20'000);
    INFO((fd ? "" : fd.error()));
    REQUIRE(fd);
    return std::move(*fd);
  }
  wire::PublishedBody publish(const wire::PublishBody& body, int fd, int base_fd = -1) const {
    const Fd socket = client();
    const Result<wire::Message> answer =
        wire::call(socket.get(), wire::Type::publish, wire::bytes_of(body), fd, base_fd);
    INFO((answer ? "" : answer.error()));
    REQUIRE(answer);
    return *wire::body_as<wire::PublishedBody>(*answer);
  }
  wire::PublishedBody publish(const test::SnapshotBytes& snapshot, uint64_t number) const {
    const Fd fd = memory_file(snapshot.bytes(), kAllSeals);
    return publish(body_for(snapshot.bytes(), {7, number}), fd.get());
  }
  enum class Base { stays, comes_along };
  wire::PublishedBody publish(const test::SnapshotBytes& overlay, uint64_t number, const test::SnapshotBytes& base,
                              Base with) const {
    const Fd fd = memory_file(overlay.bytes(), kAllSeals), base_fd = memory_file(base.bytes(), kAllSeals);
    return publish(body_for(overlay.bytes(), {7, number}, base.bytes()), fd.get(),
                   with == Base::comes_along ? base_fd.get() : -1);
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
  std::string overlay_path(wire::Generation base) const { return state_.overlay_path(base); }
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

}  // namespace weir::dataplane
