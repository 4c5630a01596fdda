// What systemd hears: ready when all have moved, the watchdog only while all go on, the end. A socket of the test's own
// is in the place of systemd's.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "common/fd.h"
#include "dataplane/serve/heartbeat.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"

using namespace weir;
using namespace weir::dataplane;

namespace {

// Where sd_notify() sends to, for as long as it lives.
class Manager {
 public:
  explicit Manager(const std::string& folder, const char* watchdog_us) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = folder + "/notify";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    setenv("WATCHDOG_USEC", watchdog_us, 1);
    unsetenv("WATCHDOG_PID");
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
  }
  // Until a message holds this; all that was heard. Empty: not within the time.
  std::string hear(const std::string& wanted, int timeout_ms) {
    std::string heard;
    for (pollfd ready = {socket_.get(), POLLIN, 0}; poll(&ready, 1, timeout_ms) > 0;) {
      char text[4096];
      const ssize_t got = recv(socket_.get(), text, sizeof text, 0);
      if (got <= 0) break;
      heard += std::string(text, static_cast<size_t>(got)) + "\n";
      if (heard.find(wanted) != std::string::npos) return heard;
    }
    return "";
  }
  void forget() {
    char text[4096];
    while (recv(socket_.get(), text, sizeof text, MSG_DONTWAIT) > 0) {
    }
  }

 private:
  Fd socket_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

constexpr int kLongMs = 20'000;  // for what must come; a machine that does much else may need it

}  // namespace

TEST_CASE("a pulse is there when every part has moved, and names those that have not") {
  uint64_t first = 0, second = 0;
  Pulse pulse({{"first", [&] { return first; }}, {"second", [&] { return second; }}});
  CHECK_FALSE(pulse.all_moved());
  CHECK(pulse.standing() == "first, second");
  first = 3;
  CHECK_FALSE(pulse.all_moved());
  CHECK(pulse.standing() == "second");
  second = 1;
  CHECK(pulse.all_moved());
  CHECK_FALSE(pulse.all_moved());
  second = 2;
  CHECK_FALSE(pulse.all_moved());  // what one does counts for itself alone
  first = 4;
  CHECK(pulse.all_moved());
  CHECK(Pulse({}).all_moved());
}

TEST_CASE("what `systemctl status` shows") {
  wire::StatusBody status;
  status.snapshot_durable = 1;
  CHECK(service_status(status, true) == "no policy yet: everything passes");
  CHECK(service_status(status, false) == "no policy yet: everything is dropped");
  status.generation.number = 12;
  CHECK(service_status(status, true) == "enforcing generation 12");
  status.snapshot_durable = 0;
  CHECK(service_status(status, true) == "enforcing generation 12, not on disk");
  status.bypass = 1;
  CHECK(service_status(status, true) ==
        "bypass is ON: everything passes; without it: enforcing generation 12, not on disk");
}

TEST_CASE("a service manager hears that it is ready, is fed while all go on, and hears of the end") {
  const Folder folder;
  Manager manager(folder.path(), "200000");
  std::atomic<uint64_t> worker = 0, nudged = 0;
  std::atomic<bool> is_held = true;
  Heartbeat heartbeat(
      {{{"worker 0", [&] { return is_held ? worker.load() : ++worker; }}, {"control", [&] { return nudged.load(); }}},
       [&] { nudged++; },
       [] { return std::string("enforcing generation 7"); }});
  REQUIRE(Heartbeat::is_wanted());
  CHECK(heartbeat.is_idle());
  std::thread thread([&] { heartbeat.run(); });
  CHECK(manager.hear("READY=1", 500).empty());  // the worker has not begun
  is_held = false;
  const std::string ready = manager.hear("READY=1", kLongMs);
  CHECK_THAT(ready, Catch::Matchers::ContainsSubstring("STATUS=enforcing generation 7"));
  CHECK_FALSE(manager.hear("WATCHDOG=1", kLongMs).empty());
  is_held = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // what was on its way is there
  manager.forget();
  CHECK(manager.hear("WATCHDOG=1", 1000).empty());  // five times what the watchdog waits
  is_held = false;
  CHECK_FALSE(manager.hear("WATCHDOG=1", kLongMs).empty());
  heartbeat.stop();
  thread.join();
  CHECK(heartbeat.is_idle());
  CHECK_FALSE(manager.hear("STOPPING=1", kLongMs).empty());
}

TEST_CASE("without a service manager nothing is wanted") {
  unsetenv("NOTIFY_SOCKET");
  CHECK_FALSE(Heartbeat::is_wanted());
}
