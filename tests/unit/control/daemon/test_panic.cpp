// The panic switch: always sent, never delayed, told again to who returns, and never told what nobody ordered.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <future>
#include <string_view>
#include <thread>

#include "control/daemon/panic.h"
#include "tests/unit/control/support/enforcer.h"
#include "tests/unit/control/support/support.h"
#include "tests/unit/eventually.h"

using namespace weir;
using namespace weir::control;
using std::chrono::milliseconds;

namespace {

// The disk of the state folder.
std::atomic<bool> no_writes = false, no_reads = false;  // it does not answer those
std::atomic<int> renames = 0;

void wait_while(const std::atomic<bool>& hangs) {
  while (hangs) a_moment();
}

constexpr int kAnHour_ms = 3'600'000;
constexpr TargetTimes kFast{5, 20, 300, 10'000};

struct Switch {
  explicit Switch(const Folder& folder, const std::vector<std::string>& sockets, int switched_ms = 20'000)
      : store(std::move(*Store::open(folder / "state"))), planes(loop, folder / "no-bpf-file-system") {
    PanicSwitch::Hooks hooks;
    hooks.confirmed = [this](const std::string&, bool) { confirmations++; };
    hooks.answer = [](PanicSwitch& one, const std::string& line, const Caller&, const ApiServer::Reply& reply) {
      one.order(line == "on", [reply](const PanicSwitch::Report& report) { reply(fmt_of(report)); });
    };
    hooks.failure = [](const std::string& error) { return error; };
    TargetTimes times = kFast;
    times.switched = switched_ms;
    realtime::Starter urgent;
    auto started = PanicSwitch::start(urgent, folder / "panic.sock", planes, store, times, hooks);
    REQUIRE(started);
    panic = std::move(*started);
    std::vector<TargetSpec> targets;
    for (const std::string& socket : sockets) targets.push_back(dataplane_target(socket));
    panic->set_targets(targets);
  }
  static std::string fmt_of(const PanicSwitch::Report& report) {
    std::string text = report.on ? "on" : "off";
    for (const auto& outcome : report.targets) text += outcome.acknowledged ? " confirmed" : " " + outcome.error;
    return text + "\n";
  }
  std::future<PanicSwitch::Report> begin(bool on) {
    given++;
    auto promise = std::make_shared<std::promise<PanicSwitch::Report>>();
    panic->order(on, [promise](const PanicSwitch::Report& report) { promise->set_value(report); });
    return promise->get_future();
  }
  PanicSwitch::Report order(bool on) { return begin(on).get(); }
  // Given again while that took longer than is waited for it: a busy machine may stop a processor for so long.
  bool is_confirmed(size_t target, bool on) {
    return eventually([&] { return order(on).targets[target].acknowledged; });
  }
  // What a link does when its target returned.
  void greet(const std::string& target) {
    std::promise<void> told;
    panic->greet(target, false, [&] { told.set_value(); });
    told.get_future().wait();
  }

  Store store;
  Loop loop;  // nobody turns it: the switch needs none but its own
  Planes planes;
  std::atomic<int> confirmations = 0;
  int given = 0;  // orders
  std::unique_ptr<PanicSwitch> panic;
};

}  // namespace

// Instead of the C library's.
int fsync(int fd) {
  wait_while(no_writes);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
int access(const char* path, int mode) noexcept {
  if (std::string_view(path).ends_with("/state/bypass")) wait_while(no_reads);
  return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, mode));
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  renames++;
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
}

TEST_CASE("an order is sent whatever the target was thought to do") {
  const Folder folder;
  Enforcer one(folder / "one"), two(folder / "two");
  Switch panic(folder, {folder / "one", folder / "two"});
  for (int round = 1; round <= 10; round++) {
    const PanicSwitch::Report report = panic.order(true);
    REQUIRE(report.targets.size() == 2);
    CHECK((report.targets[0].acknowledged && report.targets[1].acknowledged));
    CHECK(report.remembered);
    CHECK((one.bypass() && two.bypass()));
    CHECK(one.orders() == round);
    one.set_bypass(false);  // by `controlctl bypass off --dataplane`, which this controld never hears of
  }
  CHECK(panic.panic->is_on());
  CHECK(panic.confirmations == 20);
  CHECK_FALSE(panic.order(false).on);
  CHECK_FALSE((one.bypass() || two.bypass()));
  CHECK_FALSE(panic.panic->is_on());
}

TEST_CASE("a target that is away holds nobody else, and hears of it when it is there") {
  const Folder folder;
  Enforcer here(folder / "here");
  Switch panic(folder, {folder / "away", folder / "here"}, kAnHour_ms);  // nobody waits for it
  const PanicSwitch::Report report = panic.order(true);
  REQUIRE(report.targets.size() == 2);
  CHECK_FALSE(report.targets[0].acknowledged);
  CHECK(report.targets[0].error.find("not reached, and told when it comes back: cannot connect") == 0);
  CHECK(report.targets[1].acknowledged);
  const Enforcer late(folder / "away");
  CHECK(eventually([&] { return late.bypass(); }));
}

TEST_CASE("a target that hangs holds nobody else; what it hears last is the last order") {
  const Folder folder;
  Enforcer deaf(folder / "deaf", {.is_deaf = true}), here(folder / "here");
  Switch panic(folder, {folder / "deaf", folder / "here"}, 100);
  auto first = panic.begin(true);
  CHECK(eventually([&] { return here.bypass(); }));
  const PanicSwitch::Report report = first.get();
  CHECK_FALSE(report.targets[0].acknowledged);
  CHECK(report.targets[0].error == "no answer yet: it is told until it confirms");
  for (int i = 0; i < 5; i++) CHECK(panic.is_confirmed(1, i % 2 == 1));
  CHECK_FALSE(here.bypass());
  deaf.release();
  CHECK(eventually([&] { return deaf.orders() == panic.given; }));  // all of them, in their order
  CHECK_FALSE(deaf.bypass());
}

TEST_CASE("a target that answers nobody is told, and not waited for until it is back") {
  const Folder folder;
  Enforcer deaf(folder / "deaf", {.is_deaf = true});
  Switch panic(folder, {folder / "deaf"}, kAnHour_ms);
  panic.panic->lose(folder / "deaf", "no message from the peer in time");
  const PanicSwitch::Report report = panic.order(true);
  CHECK(report.targets[0].error == "not reached, and told when it comes back: no message from the peer in time");
  deaf.release();
  CHECK(eventually([&] { return deaf.bypass(); }));
  panic.greet(folder / "deaf");
  CHECK(panic.order(false).targets[0].acknowledged);
  CHECK_FALSE(deaf.bypass());
}

TEST_CASE("an order that a later one overtakes is not reported as done") {
  const Folder folder;
  Enforcer deaf(folder / "deaf", {.is_deaf = true});
  Switch panic(folder, {folder / "deaf"});
  auto on = panic.begin(true), off = panic.begin(false);
  deaf.release();
  CHECK(off.get().targets[0].acknowledged);
  const PanicSwitch::Report overtaken = on.get();
  CHECK_FALSE(overtaken.targets[0].acknowledged);
  CHECK(overtaken.targets[0].error == "a later order says otherwise");
  CHECK_FALSE(deaf.bypass());
}

TEST_CASE("who returns hears the last order; without one nobody's switch is touched") {
  const Folder folder;
  auto enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.bypass = true});
  {
    Switch panic(folder, {folder / "dp"});
    panic.greet(folder / "dp");
    panic.greet(folder / "unknown");
    CHECK(enforcer->orders() == 0);
    CHECK(enforcer->bypass());  // switched on by somebody, and never spoken of here
    panic.order(true);
    enforcer = std::make_unique<Enforcer>(folder / "other");  // ends the first
    enforcer = std::make_unique<Enforcer>(folder / "dp");
    panic.greet(folder / "dp");
    CHECK(enforcer->bypass());
  }
  // The next controld knows from disk.
  enforcer = std::make_unique<Enforcer>(folder / "other");
  enforcer = std::make_unique<Enforcer>(folder / "dp");
  Switch panic(folder, {folder / "dp"});
  CHECK(panic.panic->is_on());
  CHECK(enforcer->orders() == 0);
  panic.greet(folder / "dp");
  CHECK(enforcer->bypass());
  panic.order(false);
  CHECK_FALSE(panic.store.bypass());
}

TEST_CASE("an order that came before its targets were known is told to them at once, reached or not") {
  const Folder folder;
  const Enforcer enforcer(folder / "dp", Enforcer::Behaviour{.bypass = true});
  Switch panic(folder, {});
  panic.order(false);
  panic.panic->set_targets({dataplane_target(folder / "dp")});
  CHECK(eventually([&] { return !enforcer.bypass(); }));
}

TEST_CASE("an answer that tells another state confirms nothing, and the order is repeated") {
  const Folder folder;
  Enforcer stubborn(folder / "dp", {.is_stubborn = true});
  Switch panic(folder, {folder / "dp"}, 200);
  CHECK(eventually([&] {  // a report may come while it is asked once more
    const PanicSwitch::Report report = panic.order(true);
    CHECK_FALSE(report.targets[0].acknowledged);
    return report.targets[0].error.find("it did not confirm") != std::string::npos;
  }));
  CHECK(panic.confirmations == 0);
  stubborn.release();
  CHECK(eventually([&] { return panic.confirmations == 1; }));
  CHECK(stubborn.bypass());
}

TEST_CASE("its own socket answers with nobody else's help") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Switch panic(folder, {folder / "dp"});
  std::vector<Fd> silent;
  for (size_t i = 0; i < 2 * ApiServer::kMaxClients; i++) {
    silent.push_back(std::move(*unix_socket::connect(folder / "panic.sock", unix_socket::Kind::stream, 20'000)));
  }
  const Fd client = std::move(*unix_socket::connect(folder / "panic.sock", unix_socket::Kind::stream, 20'000));
  REQUIRE(send(client.get(), "on\n", 3, 0) == 3);
  char text[64] = {};
  REQUIRE(recv(client.get(), text, sizeof text - 1, 0) > 0);
  CHECK(std::string(text) == "on confirmed\n");
  CHECK(enforcer.bypass());
}

TEST_CASE("what cannot be remembered is told, and done all the same") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Switch panic(folder, {folder / "dp"});
  std::filesystem::create_directories(folder / "state/bypass/in the way");
  const PanicSwitch::Report report = panic.order(true);
  CHECK(report.targets[0].acknowledged);
  CHECK(enforcer.bypass());
  REQUIRE_FALSE(report.remembered);
  CHECK(report.remembered.error().find("bypass") != std::string::npos);
}

TEST_CASE("an order that was taken back while the disk hung is never on it") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Switch panic(folder, {folder / "dp"}, 100);
  no_writes = true;
  auto on = panic.begin(true);
  const std::string unfinished = folder / fmt::format("state/bypass.on-{}", getpid());
  CHECK(eventually([&] { return std::filesystem::exists(unfinished); }));
  for (int i = 0; i < 4; i++) CHECK(panic.is_confirmed(0, i % 2 == 1));
  const PanicSwitch::Report report = panic.order(false);
  REQUIRE_FALSE(report.remembered);
  CHECK(report.remembered.error() == "the disk has not answered yet");
  renames = 0;
  no_writes = false;
  CHECK(eventually([&] { return panic.panic->disk_error().empty() && panic.order(false).remembered; }));
  CHECK(renames == 0);  // a crash at any moment would have found it off
  CHECK_FALSE(panic.store.bypass());
}

TEST_CASE("a disk that answers not even a question holds nobody") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Switch panic(folder, {folder / "dp"}, 100);
  CHECK(eventually([&] { return bool(panic.order(true).remembered); }));
  no_reads = true;  // for as long as the test wants
  panic.panic->look_again();
  enforcer.set_bypass(false);
  panic.greet(folder / "dp");
  CHECK(eventually([&] { return enforcer.bypass(); }));  // told what is known
  CHECK(panic.is_confirmed(0, false));
  CHECK_FALSE(enforcer.bypass());
  no_reads = false;
}

TEST_CASE("who is away when it is switched off hears it from the next controld, too; then nobody is told any more") {
  const Folder folder;
  {
    Switch panic(folder, {folder / "dp"}, 100);
    CHECK_FALSE(panic.order(false).targets[0].acknowledged);
    CHECK(eventually([&] { return panic.store.ordered_bypass() == false; }));
  }
  auto enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.bypass = true});  // from its own disk
  {
    Switch panic(folder, {folder / "dp"});
    panic.greet(folder / "dp");
    CHECK(eventually([&] { return !enforcer->bypass(); }));
    CHECK(eventually([&] { return !panic.store.ordered_bypass(); }));
  }
  enforcer->set_bypass(true);  // by another's order, before the next controld starts
  Switch panic(folder, {folder / "dp"});
  panic.greet(folder / "dp");
  CHECK(eventually([&] { return enforcer->bypass(); }));
}
