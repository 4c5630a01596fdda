// One link, one enforcer on a real socket: reached again, given what it should have, and nothing twice.
#include "control/enforce/targets/target.h"
#include "tests/unit/control/support/enforcer.h"
#include "tests/unit/control/support/support.h"

using namespace weir;
using namespace weir::control;

namespace {

constexpr TargetTimes kFast{5, 20, 10'000, 10'000};

// A link to a data plane at this path, with the loop that it lives on.
struct Linked {
  explicit Linked(const std::string& socket, TargetTimes times = kFast)
      : link(loop, dataplane_target(socket), {[socket](const auto& done) { done(wire::connect(socket, 0)); }, {}, {}},
             times) {}
  template <class Test>
  bool until(Test test) {
    return eventually(loop, test);
  }
  bool until_acknowledged(wire::Generation generation) {
    return until([&] { return link.state().acknowledged == generation; });
  }
  bool until_told_stats() {
    const uint64_t ticket = link.ask_stats();
    return until([&] { return link.has_stats(ticket); });
  }
  const TargetState& state() const { return link.state(); }

  Loop loop;
  TargetLink link;
};

}  // namespace

TEST_CASE("a target that comes late gets the newest, once") {
  const Folder folder;
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  CHECK_FALSE(link.state().is_tried);  // it is not away: nobody knows yet
  REQUIRE(linked.until([&] { return link.state().last_error.find("cannot connect") != std::string::npos; }));
  CHECK(link.state().is_tried);
  link.publish(sample({7, 1}).publication);
  link.publish(sample({7, 2}).publication);
  CHECK(link.state().acknowledged == wire::Generation{});

  Enforcer enforcer(folder / "dp");
  REQUIRE(linked.until_acknowledged({7, 2}));
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
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  const auto publication = sample({7, 1}).publication;
  link.publish(publication);
  REQUIRE(linked.until_acknowledged({7, 1}));

  const auto restart = [&](const Enforcer::Behaviour& behaviour) {
    enforcer.reset();
    REQUIRE(linked.until([&] { return !link.state().connected; }));
    enforcer = std::make_unique<Enforcer>(folder / "dp", behaviour);
    REQUIRE(linked.until([&] { return link.state().connected; }));
    REQUIRE(linked.until_acknowledged({7, 1}));
  };
  restart({.generation = {7, 1}, .digest = publication->digest});
  // Counters are asked after what is due: once they are here, a publication would have been sent.
  REQUIRE(linked.until_told_stats());
  CHECK(enforcer->publications() == 0);
  restart({.generation = {}});
  CHECK(enforcer->publications() == 1);
  restart({.generation = {6, 1}});  // of another controld
  CHECK(enforcer->publications() == 1);
  restart({.generation = {7, 1}, .digest = {1, 2}});  // a number that was used twice: other bytes
  CHECK(linked.until([&] { return enforcer->publications() == 1; }));
}

TEST_CASE("since when a target is away is known: of one that never came, and of one that went") {
  const Folder folder;
  const Clock::time_point start = Clock::now();
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  CHECK_FALSE(link.away_since());  // nobody knows yet
  REQUIRE(linked.until([&] { return link.state().is_tried; }));
  const std::optional<Clock::time_point> first = link.away_since();
  REQUIRE(first);
  CHECK(*first >= start);
  // Attempts that fail change nothing.
  linked.loop.run_until([] { return false; }, Clock::now() + std::chrono::milliseconds(20));
  CHECK(link.away_since() == first);

  auto enforcer = std::make_unique<Enforcer>(folder / "dp");
  REQUIRE(linked.until([&] { return link.state().connected; }));
  CHECK_FALSE(link.away_since());
  const Clock::time_point before = Clock::now();
  enforcer.reset();
  REQUIRE(linked.until([&] { return !link.state().connected; }));
  REQUIRE(link.away_since());
  CHECK(*link.away_since() >= before);
}

TEST_CASE("telemetry is asked of every worker, as many as there may be") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.packets = 5, .workers = 3});
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  uint64_t ticket = link.ask_telemetry();
  REQUIRE(linked.until([&] { return link.has_telemetry(ticket); }));
  const TargetState state = link.state();
  REQUIRE(state.telemetry->workers.size() == 3);
  CHECK(state.telemetry->workers[2].body.worker == 2);
  CHECK(state.telemetry->workers[2].body.packets == 5);
  CHECK(state.telemetry->ports.ports.size() == 2);

  Enforcer liar(folder / "liar", {.workers = UINT32_MAX});
  Linked other(folder / "liar");
  ticket = other.link.ask_telemetry();
  REQUIRE(other.until([&] { return other.link.has_telemetry(ticket); }));
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
  int attempts = 0;
  Loop loop;
  const auto connect = [&](const std::function<void(Result<Fd>)>& done) {
    if (++attempts < 3) return done(Error{"the verifier refuses it"});
    done(wire::connect(folder / "xdp", 10'000));  // it blocks, as a socket pair of the plane does
  };
  TargetLink link(loop, xdp_target({"eth0", "eth1"}, Attach::any), {connect, {}, {}}, kFast);
  link.publish(sample({7, 1}).publication);
  REQUIRE(eventually(loop, [&] { return link.state().acknowledged == wire::Generation{7, 1}; }));
  CHECK(attempts == 3);
  TargetState state = link.state();
  CHECK(state.socket == "xdp:eth0,eth1");
  CHECK(state.has_interfaces);
  REQUIRE(state.interfaces);
  REQUIRE(state.interfaces->size() == 2);
  CHECK(wire::get_text((*state.interfaces)[1].error) == "there is no such interface");

  const uint64_t ticket = link.ask_telemetry();
  REQUIRE(eventually(loop, [&] { return link.has_telemetry(ticket); }));
  state = link.state();
  CHECK(state.telemetry->workers.empty());
  CHECK(state.telemetry->ports.ports.size() == 2);
  CHECK(state.connected);

  eth1.attached = 1;
  wire::set_text(eth1.error, "");
  enforcer.set_interfaces({eth0, eth1});
  CHECK(eventually(loop, [&] { return (*link.state().interfaces)[1].attached == 1; }));
}

TEST_CASE("a refusal is told, and the old generation stays known") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.generation = {6, 5}, .refuses = true});
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  link.publish(sample({7, 1}).publication);
  CHECK_FALSE(link.is_settled({7, 1}));
  REQUIRE(linked.until([&] { return link.is_settled({7, 1}) && !link.state().last_error.empty(); }));
  CHECK(enforcer.publications() == 1);
  CHECK(link.state().acknowledged == wire::Generation{});
  const TargetState state = link.state();
  CHECK(state.last_error == "refused in step validate: the test refuses it");
  CHECK(state.connected);
  CHECK(state.status->generation == wire::Generation{6, 5});
}

TEST_CASE("a generation of our epoch that was never given out is not gone past") {
  const Folder folder;
  const auto ahead_of = [&](uint64_t claimed) {
    Enforcer enforcer(folder / "dp", {.generation = {7, claimed}, .refuses = true});
    Loop loop;
    std::vector<wire::Generation> ahead;
    TargetLink::Surroundings surroundings;
    surroundings.connect = [&](const auto& done) { done(wire::connect(folder / "dp", 0)); };
    surroundings.is_ahead = [&](wire::Generation seen) { ahead.push_back(seen); };
    TargetLink link(loop, dataplane_target(folder / "dp"), std::move(surroundings), kFast);
    link.publish(sample({7, 1}).publication);
    REQUIRE(eventually(loop, [&] { return link.is_settled({7, 1}) && !link.state().last_error.empty(); }));
    CHECK(link.state().acknowledged == wire::Generation{});
    return std::pair(ahead, link.state().last_error);
  };
  const auto possible = ahead_of(9);
  CHECK(possible.first == std::vector<wire::Generation>{{7, 9}});
  CHECK(possible.second == "refused in step validate: the test refuses it");
  const auto wrong = ahead_of(UINT64_MAX);
  CHECK(wrong.first.empty());
  CHECK(wrong.second ==
        "refused in step validate: the test refuses it; it tells generation 18446744073709551615 of this controld's "
        "epoch, which is not possible: the newest is 1");
}

TEST_CASE("enforced and not durable is told, and so is that it became durable") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.disk_is_full = true});
  Linked linked(folder / "dp");
  linked.link.publish(sample({7, 1}).publication);
  REQUIRE(linked.until_acknowledged({7, 1}));
  CHECK_FALSE(linked.state().is_durable());
  CHECK(wire::get_text(linked.state().status->disk_error) == "no room");
  enforcer.set_disk_full(false);
  CHECK(linked.until([&] { return linked.state().is_durable(); }));
}

TEST_CASE("a target that hangs holds nobody, and gets the publication when it is reached anew") {
  const Folder folder;
  auto enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.hangs = true});
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  link.publish(sample({7, 1}).publication);
  REQUIRE(linked.until([&] { return enforcer->publications() == 1; }));
  CHECK(link.state().publishing);
  CHECK_FALSE(link.is_settled({7, 1}));
  CHECK_FALSE(link.has_stats(link.ask_stats()));

  enforcer.reset();
  enforcer = std::make_unique<Enforcer>(folder / "dp", Enforcer::Behaviour{.hangs = true});
  REQUIRE(linked.until([&] { return enforcer->publications() == 1; }));
  enforcer->release();
  CHECK(linked.until_acknowledged({7, 1}));
}

TEST_CASE("patience with a silent target ends") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.hangs = true});
  Linked linked(folder / "dp", {5, 20, 10'000, 30});
  TargetLink& link = linked.link;
  link.publish(sample({7, 1}).publication);
  REQUIRE(linked.until([&] { return link.state().last_error.find("in time") != std::string::npos; }));
  enforcer.release();
  CHECK(linked.until_acknowledged({7, 1}));
}

TEST_CASE("a target whose connections end as soon as they are made is reached ever more seldom") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.hangs = true});
  Loop loop;
  int connections = 0;
  const auto connect = [&](const auto& done) {
    connections++;
    done(wire::connect(folder / "dp", 0));
  };
  TargetLink link(loop, dataplane_target(folder / "dp"), {connect, {}, {}}, {200, 10'000, 10'000, 10});
  link.publish(sample({7, 1}).publication);
  loop.run_until([] { return false; }, Clock::now() + std::chrono::seconds(1));
  CHECK(connections <= 15);
  CHECK(eventually(loop, [&] { return connections >= 3; }));
  enforcer.release();
  CHECK(eventually(loop, [&] { return link.state().acknowledged == wire::Generation{7, 1}; }));
}

TEST_CASE("a link to a target that hangs ends at once") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.hangs = true});
  TargetTimes patient;
  patient.publish = 3'600'000;  // the test would take an hour
  Linked linked(folder / "dp", patient);
  TargetLink& link = linked.link;
  link.publish(sample({7, 1}).publication);
  REQUIRE(linked.until([&] { return enforcer.publications() == 1; }));
}

TEST_CASE("a new connection hears what it must before anything is published on it") {
  const Folder folder;
  Enforcer enforcer(folder / "dp", {.bypass = true});
  Loop loop;
  TargetLink::Done greeted;
  int greetings = 0;
  const auto greet = [&](bool bypass, TargetLink::Done done) {
    CHECK(bypass);
    greetings++;
    greeted = std::move(done);
  };
  TargetLink link(loop, dataplane_target(folder / "dp"),
                  {[&](const auto& done) { done(wire::connect(folder / "dp", 0)); }, greet, {}}, kFast);
  link.publish(sample({7, 1}).publication);
  REQUIRE(eventually(loop, [&] { return greetings == 1; }));
  const uint64_t ticket = link.ask_stats();
  REQUIRE(eventually(loop, [&] { return link.has_stats(ticket); }));  // anything else goes on
  CHECK(enforcer.publications() == 0);
  greeted();
  CHECK(eventually(loop, [&] { return link.state().acknowledged == wire::Generation{7, 1}; }));
  CHECK(greetings == 1);
}

TEST_CASE("what the panic switch did is known at once, whatever is on its way") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  REQUIRE(linked.until([&] { return link.state().connected; }));
  CHECK(link.state().status->bypass == 0);
  enforcer.set_bypass(true);
  link.take_bypass(true);
  CHECK(link.state().status->bypass == 1);
  REQUIRE(linked.until_told_stats());
  CHECK(link.state().status->bypass == 1);
  enforcer.set_bypass(false);  // by somebody else: seen at the next look
  CHECK(linked.until([&] { return link.state().status->bypass == 0; }));
}

TEST_CASE("a link that is let go does nothing more") {
  const Folder folder;
  Enforcer enforcer(folder / "dp");
  Linked linked(folder / "dp");
  TargetLink& link = linked.link;
  REQUIRE(linked.until([&] { return link.state().connected; }));
  link.stop();
  CHECK_FALSE(link.state().connected);
  link.publish(sample({7, 1}).publication);
  linked.loop.run_until([] { return false; }, Clock::now() + std::chrono::milliseconds(50));
  CHECK(enforcer.publications() == 0);
  CHECK_FALSE(link.state().connected);
}
