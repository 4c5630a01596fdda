// What systemd hears: ready when all have moved, the watchdog only while all go on, the end. A socket of the test's own
// is in the place of systemd's.
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
#include "tests/unit/own_clocks.h"

using namespace weir;
using namespace weir::dataplane;
using Catch::Matchers::ContainsSubstring;

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
  // All that was told since it was asked last.
  std::string heard() {
    std::string all;
    char text[4096];
    for (ssize_t got = 0; (got = recv(socket_.get(), text, sizeof text, MSG_DONTWAIT)) > 0;) {
      all += std::string(text, static_cast<size_t>(got)) + "\n";
    }
    return all;
  }

 private:
  Fd socket_{socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
};

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
  const OwnClocks clocks;
  std::thread thread([&] { heartbeat.run(); });
  // It looks at its parts between two nudges.
  const auto look = [&](uint64_t times) {
    const uint64_t before = nudged;
    REQUIRE(clocks.pass_until(std::chrono::milliseconds(100), [&] { return nudged > before + times; }));
    return manager.heard();
  };
  CHECK(look(5).empty());  // the worker has not begun
  is_held = false;
  const std::string ready = look(2);
  CHECK_THAT(ready, ContainsSubstring("READY=1") && ContainsSubstring("STATUS=enforcing generation 7"));
  CHECK_THAT(look(2), ContainsSubstring("WATCHDOG=1"));
  is_held = true;
  look(2);  // it may have moved before
  CHECK(look(20).empty());
  is_held = false;
  CHECK_THAT(look(2), ContainsSubstring("WATCHDOG=1"));
  heartbeat.stop();
  thread.join();
  CHECK(heartbeat.is_idle());
  CHECK_THAT(manager.heard(), ContainsSubstring("STOPPING=1"));
}

TEST_CASE("without a service manager nothing is wanted") {
  unsetenv("NOTIFY_SOCKET");
  CHECK_FALSE(Heartbeat::is_wanted());
}
