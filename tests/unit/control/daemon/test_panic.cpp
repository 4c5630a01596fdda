// The panic switch: always sent, never delayed, told again to who returns, and never told what nobody ordered.
#include <sys/socket.h>

#include <atomic>
#include <future>

#include "control/daemon/panic.h"
#include "tests/unit/control/support/enforcer.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;
using std::chrono::milliseconds;

namespace {

constexpr TargetTimes kFast{5, 20, 300, 10'000};

struct Switch {
  explicit Switch(const Folder& folder, const std::vector<std::string>& sockets, int acknowledge_ms = 20'000)
      : store(std::move(*Store::open(folder / "state"))), planes(loop, folder / "no-bpf-file-system") {
    PanicSwitch::Hooks hooks;
    hooks.confirmed = [this](const std::string&, bool) { confirmations++; };
    hooks.answer = [](PanicSwitch& one, const std::string& line, const ApiServer::Reply& reply) {
      one.order(line == "on", [reply](const PanicSwitch::Report& report) { reply(fmt_of(report)); });
    };
    hooks.failure = [](const std::string& error) { return error; };
    auto started = PanicSwitch::start(folder / "panic.sock", planes, store, acknowledge_ms, kFast, hooks);
    REQUIRE(started);
    panic = std::move(*started);
    std::vector<TargetSpec> targets;
    for (const std::string& socket : sockets) targets.push_back(dataplane_target(socket));
    panic->set_targets(targets);
  }
  static std::string fmt_of(const PanicSwitch::Report& report) {
    std::string text = report.on ? "on" : "off";
    for (const auto& outcome : report.targets) text += outcome.confirmed ? " confirmed" : " " + outcome.error;
    return text + "\n";
  }
  std::future<PanicSwitch::Report> begin(bool on) {
    auto promise = std::make_shared<std::promise<PanicSwitch::Report>>();
    panic->order(on, [promise](const PanicSwitch::Report& report) { promise->set_value(report); });
    return promise->get_future();
  }
  PanicSwitch::Report order(bool on) { return begin(on).get(); }
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
  std::unique_ptr<PanicSwitch> panic;
};

}  // namespace

TEST_CASE("an order is sent whatever the target was thought to do") {
  const Folder folder;
  Enforcer one(folder / "one"), two(folder / "two");
  Switch panic(folder, {folder / "one", folder / "two"});
  for (int round = 1; round <= 10; round++) {
    const PanicSwitch::Report report = panic.order(true);
    REQUIRE(report.targets.size() == 2);
    CHECK((report.targets[0].confirmed && report.targets[1].confirmed));
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
  Switch panic(folder, {folder / "away", folder / "here"}, 200);
  const PanicSwitch::Report report = panic.order(true);
  REQUIRE(report.targets.size() == 2);
  CHECK_FALSE(report.targets[0].confirmed);
  CHECK(report.targets[0].error.find("cannot connect") == 0);
  CHECK(report.targets[1].confirmed);
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
  CHECK_FALSE(report.targets[0].confirmed);
  CHECK(report.targets[0].error == "no answer");
  CHECK(report.targets[1].confirmed);
  for (int i = 0; i < 5; i++) CHECK(panic.order(i % 2 == 1).targets[1].confirmed);
  CHECK_FALSE(here.bypass());
  deaf.release();
  CHECK(eventually([&] { return deaf.orders() == 6; }));  // all of them, in their order
  CHECK_FALSE(deaf.bypass());
}

TEST_CASE("an order that a later one overtakes is not reported as done") {
  const Folder folder;
  Enforcer deaf(folder / "deaf", {.is_deaf = true});
  Switch panic(folder, {folder / "deaf"});
  auto on = panic.begin(true), off = panic.begin(false);
  deaf.release();
  CHECK(off.get().targets[0].confirmed);
  const PanicSwitch::Report overtaken = on.get();
  CHECK_FALSE(overtaken.targets[0].confirmed);
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

TEST_CASE("its own socket answers with nobody else's help") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Switch panic(folder, {folder / "dp"});
  std::vector<Fd> silent;
  for (size_t i = 0; i < 2 * ApiServer::kMaxClients; i++) {
    silent.push_back(std::move(*unix_socket::connect(folder / "panic.sock", unix_socket::Kind::stream, 20'000)));
  }
  const Fd client = std::move(*unix_socket::connect(folder / "panic.sock", unix_socket::Kind::stream, 20'000));
  const auto begin = Clock::now();
  REQUIRE(send(client.get(), "on\n", 3, 0) == 3);
  char text[64] = {};
  REQUIRE(recv(client.get(), text, sizeof text - 1, 0) > 0);
  CHECK(std::string(text) == "on confirmed\n");
  CHECK(Clock::now() - begin < std::chrono::seconds(5));
  CHECK(enforcer.bypass());
}

TEST_CASE("what cannot be remembered is told, and done all the same") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Switch panic(folder, {folder / "dp"});
  std::filesystem::create_directory(folder / "state/bypass.new");  // in the way of the temporary file
  const PanicSwitch::Report report = panic.order(true);
  CHECK(report.targets[0].confirmed);
  CHECK(enforcer.bypass());
  REQUIRE_FALSE(report.remembered);
  CHECK(report.remembered.error().find("bypass.new") != std::string::npos);
}
