// Targets as options name them, and of policies that are wrong. What policies say well: test_policy.cpp; what is
// refused: configs/bad/target-*.
#include <filesystem>
#include <fstream>

#include "common/paths.h"
#include "control/policy/read/policy.h"
#include "control/policy/read/target_spec.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

TEST_CASE("a target is named as an option names it") {
  for (const char* name :
       {"/run/weir/dataplane.sock", "dataplane.sock", "./xdp:eth0", "xdp:", "xdp:eth0", "xdp:eth0,eth1"}) {
    INFO(name);
    const Result<TargetSpec> target = target_of(name);
    REQUIRE(target);
    CHECK(target->name == name);
    CHECK((target->kind == TargetKind::xdp) == std::string(name).starts_with("xdp:"));
  }
  CHECK(*target_of("xdp:eth0,eth1") == xdp_target({"eth0", "eth1"}, Attach::any));
  const std::string long_path(108, 'x');
  for (const std::string bad : {"", "xdp:,", "xdp:eth0,", "xdp:,eth0", "xdp:eth0,,eth1", "xdp:eth0,eth0", "xdp:eth 0",
                                "xdp:eth0/1", "xdp:eth0:1", "xdp:..", "xdp:sixteen-letters0", long_path.c_str()}) {
    INFO(bad);
    const Result<TargetSpec> target = target_of(bad);
    REQUIRE_FALSE(target);
    CHECK_FALSE(target.error().empty());
  }
  CHECK(target_of("xdp:fifteen-letters"));
}

TEST_CASE("one message tells of all interfaces: there may be 256") {
  const auto errors = [](size_t interfaces) {
    std::string names;
    for (size_t i = 0; i < interfaces; i++) names += "veth" + std::to_string(i) + ", ";
    Diagnostics diagnostics;
    const auto document =
        yaml::parse_document("a.yaml", "targets: [{xdp: {interfaces: [" + names + "]}}]\n", diagnostics);
    REQUIRE(document);
    const PolicyFile file{*document, diagnostics, 0};
    read_targets(file, document->root.members.at(0).value);
    return format(diagnostics);
  };
  CHECK(errors(256).empty());
  CHECK(errors(257).find("more than 256 interfaces") != std::string::npos);
}

TEST_CASE("several options: a kind of which there is one at most is refused the second time") {
  const std::vector<std::string> good = {"/a", "xdp:eth0", "/b"};
  const auto targets = targets_of(good);
  REQUIRE(targets);
  REQUIRE(targets->size() == 3);
  CHECK((*targets)[1] == xdp_target({"eth0"}, Attach::any));
  const std::vector<std::string> two = {"xdp:eth0", "/a", "xdp:eth1"};
  const auto refused = targets_of(two);
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == "xdp:eth1: a second xdp target; name all interfaces in one");
  CHECK_FALSE(targets_of(std::vector<std::string>{"/a", ""}));
}

TEST_CASE("places of a policy that is wrong elsewhere are read as the policy reads them") {
  const auto places_in = [](const std::string& text) {
    const std::string path = (std::filesystem::temp_directory_path() / "weir-places.yaml").string();
    std::ofstream(path) << text;
    Places places = read_places(path);
    std::filesystem::remove(path);
    return places;
  };
  const Places places = places_in(
      "version: 7\nstate_dir: /s\ntargets: [{dataplane: /a}, {xdp: {interfaces: [eth0, eth1], attach: generic}}]\n"
      "lists: nonsense\n");
  CHECK(places.state_dir == "/s");
  REQUIRE(places.targets);
  REQUIRE(places.targets->size() == 2);
  CHECK((*places.targets)[0] == dataplane_target("/a"));
  CHECK((*places.targets)[1] == xdp_target({"eth0", "eth1"}, Attach::generic));

  const Places defaults = places_in("version: 1\n");
  CHECK(defaults.state_dir == default_state_dir());
  CHECK(defaults.targets == std::vector<TargetSpec>{dataplane_target(default_dataplane_socket())});

  // A target that is half understood is none: what it should have been is not guessed.
  for (const char* wrong :
       {"[{dataplane: }]", "nothing", "[{xdp: {interfaces: eth0}}]", "[{dataplane: /a}, {unknown: x}]",
        "[{xdp: {interfaces: [eth0], attach: faster}}]", "[{xdp: {interfaces: [eth0, eth/1]}}]"}) {
    INFO(wrong);
    const Places some = places_in(std::string("state_dir: /s\ntargets: ") + wrong + "\n");
    CHECK(some.state_dir == "/s");
    CHECK_FALSE(some.targets);
  }
  for (const char* unreadable : {"lists: [nonsense\n", "", "state_dir: /s\nstate_dir: /t\n"}) {
    INFO(unreadable);
    CHECK_FALSE(places_in(unreadable).state_dir);
    CHECK_FALSE(places_in(unreadable).targets);
  }
}
