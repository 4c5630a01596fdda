// One link, one enforcer on a real socket: reached again, given what it should have, and nothing twice.
#include <atomic>

#include "control/publish/targets/target.h"
#include "tests/unit/control/daemon/enforcer.h"
#include "tests/unit/control/daemon/support.h"

using namespace weir;
using namespace weir::control;

namespace {

constexpr TargetTimes kFast{5, 20, 10'000, 10'000};

Clock::time_point soon() {
  return Clock::now() + std::chrono::seconds(20);
}

}  // namespace

TEST_CASE("a target that comes late gets the newest, once") {
  const Folder folder;
  TargetLink link(folder / "dp", kFast);
  REQUIRE(eventually([&] { return link.state().last_error.find("cannot connect") != std::string::npos; }));
  link.publish(sample({7, 1}).publication);
  link.publish(sample({7, 2}).publication);
  CHECK_FALSE(link.wait_acknowledged({7, 2}, Clock::now()));

  Enforcer enforcer(folder / "dp");
  REQUIRE(link.wait_acknowledged({7, 2}, soon()));
  CHECK(enforcer.generation() == wire::Generation{7, 2});
  CHECK(enforcer.publications() == 1);
  const TargetState state = link.state();
  CHECK(state.connected);
  CHECK(state.last_error.empty());
  CHECK(std::string(state.status->version) == "test");
}

TEST_CASE("a target that returns with our generation is left alone; one that lost it gets it again") {
  const Folder folder;
  auto enforcer = std::make_unique<Enforcer>(folder / "dp");
  TargetLink link(folder / "dp", kFast);
  link.publish(sample({7, 1}).publication);
  REQUIRE(link.wait_acknowledged({7, 1}, soon()));

  const auto restart = [&](Enforcer::Behaviour behaviour) {
    enforcer.reset();
    REQUIRE(eventually([&] { return !link.state().connected; }));
    enforcer = std::make_unique<Enforcer>(folder / "dp", behaviour);
    REQUIRE(eventually([&] { return link.state().connected; }));
    REQUIRE(link.wait_acknowledged({7, 1}, soon()));
  };
  restart({.generation = {7, 1}});
  // Counters are asked after what is due: once they are here, a publication would have been sent.
  REQUIRE(link.refresh_stats(soon()));
  CHECK(enforcer->publications() == 0);
  restart({.generation = {}});
  CHECK(enforcer->publications() == 1);
  restart({.generation = {6, 1}});  // of another controld
  CHECK(enforcer->publications() == 1);
}

TEST_CASE("telemetry is asked of every worker, as many as there may be") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.packets = 5, .workers = 3});
  TargetLink link(folder / "dp", kFast);
  REQUIRE(eventually([&] { return link.refresh_telemetry(soon()); }));
  const TargetState state = link.state();
  REQUIRE(state.telemetry->workers.size() == 3);
  CHECK(state.telemetry->workers[2].body.worker == 2);
  CHECK(state.telemetry->workers[2].body.packets == 5);
  CHECK(state.telemetry->ports.ports.size() == 2);

  Enforcer liar(folder / "liar", {.workers = UINT32_MAX});
  TargetLink other(folder / "liar", kFast);
  REQUIRE(eventually([&] { return other.refresh_telemetry(soon()); }));
  CHECK(other.state().telemetry->workers.size() == wire::kMaxWorkers);
}

TEST_CASE("the XDP plane has interfaces, and no workers") {
  const Folder folder;
  wire::InterfaceBody eth0, eth1;
  wire::set_text(eth0.name, "eth0");
  eth0.attached = 1;
  wire::set_text(eth1.name, "eth1");
  wire::set_text(eth1.error, "there is no such interface");
  Enforcer enforcer(folder / "xdp", {.interfaces = {eth0, eth1}});
  std::atomic<int> attempts = 0;
  TargetLink link(
      "xdp:eth0,eth1",
      [&]() -> Result<Fd> {
        if (++attempts < 3) return Error{"the verifier refuses it"};
        return wire::connect(folder / "xdp", 10'000);
      },
      kFast);
  CHECK(link.is_xdp());
  link.publish(sample({7, 1}).publication);
  REQUIRE(link.wait_acknowledged({7, 1}, soon()));
  CHECK(attempts == 3);
  TargetState state = link.state();
  CHECK(state.socket == "xdp:eth0,eth1");
  CHECK(state.is_xdp);
  REQUIRE(state.interfaces);
  REQUIRE(state.interfaces->size() == 2);
  CHECK(wire::get_text((*state.interfaces)[1].error) == "there is no such interface");

  REQUIRE(link.refresh_telemetry(soon()));
  state = link.state();
  CHECK(state.telemetry->workers.empty());
  CHECK(state.telemetry->ports.ports.size() == 2);
  CHECK(state.connected);

  eth1.attached = 1;
  wire::set_text(eth1.error, "");
  enforcer.set_interfaces({eth0, eth1});
  CHECK(eventually([&] { return (*link.state().interfaces)[1].attached == 1; }));
}

TEST_CASE("a refusal is told, and the old generation stays known") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.generation = {6, 5}, .refuses = true});
  TargetLink link(folder / "dp", kFast);
  link.publish(sample({7, 1}).publication);
  CHECK_FALSE(link.wait_acknowledged({7, 1}, soon()));
  REQUIRE(eventually([&] { return enforcer.publications() == 1 && !link.state().last_error.empty(); }));
  const TargetState state = link.state();
  CHECK(state.last_error == "refused in step validate: the test refuses it");
  CHECK(state.connected);
  CHECK(state.status->generation == wire::Generation{6, 5});
}

TEST_CASE("a target that hangs holds nobody, and gets the publication when it is reached anew") {
  const Folder folder;
  auto enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.hangs = true});
  TargetLink link(folder / "dp", kFast);
  link.publish(sample({7, 1}).publication);
  REQUIRE(eventually([&] { return enforcer->publications() == 1; }));
  CHECK(link.state().publishing);
  CHECK_FALSE(link.wait_acknowledged({7, 1}, Clock::now()));
  CHECK_FALSE(link.refresh_stats(Clock::now()));

  enforcer.reset();
  enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.hangs = true});
  REQUIRE(eventually([&] { return enforcer->publications() == 1; }));
  enforcer->release();
  CHECK(link.wait_acknowledged({7, 1}, soon()));
}

TEST_CASE("patience with a silent target ends") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.hangs = true});
  TargetLink link(folder / "dp", {5, 20, 10'000, 30});
  link.publish(sample({7, 1}).publication);
  REQUIRE(eventually([&] { return link.state().last_error.find("in time") != std::string::npos; }));
  enforcer.release();
  CHECK(link.wait_acknowledged({7, 1}, soon()));
}

TEST_CASE("a link to a target that hangs ends at once") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.hangs = true});
  TargetTimes patient;
  patient.publish = 3'600'000;  // the test would take an hour
  TargetLink link(folder / "dp", patient);
  link.publish(sample({7, 1}).publication);
  REQUIRE(eventually([&] { return enforcer.publications() == 1; }));
}

TEST_CASE("bypass is told again to a target that returns; nobody else's switch is touched") {
  const Folder folder;
  auto enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.bypass = true});
  TargetLink link(folder / "dp", kFast);
  REQUIRE(eventually([&] { return link.refresh_stats(soon()); }));
  CHECK(enforcer->bypass());  // switched on by somebody, and never spoken of here

  link.bypass(false);
  CHECK(link.wait_bypass(false, soon()));
  CHECK_FALSE(enforcer->bypass());
  link.bypass(true);
  CHECK(link.wait_bypass(true, soon()));
  enforcer.reset();
  REQUIRE(eventually([&] { return !link.state().connected; }));
  CHECK_FALSE(link.wait_bypass(true, Clock::now()));
  enforcer = std::make_unique<Enforcer>(folder / "dp");
  CHECK(link.wait_bypass(true, soon()));
  CHECK(enforcer->bypass());
}
