// Targets as options name them, and of policies that are wrong. What policies say well: test_policy.cpp; what is
// refused: configs/bad/target-*.
#include "control/read/target_spec.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control;

namespace {

std::vector<TargetSpec> found_in(const std::string& targets) {
  Diagnostics diagnostics;
  const auto document = yaml::parse_document("a.yaml", "targets: " + targets + "\n", diagnostics);
  INFO(targets << format(diagnostics));
  REQUIRE(document);
  return find_targets(document->root.members.at(0).value);
}

}  // namespace

TEST_CASE("a target is named as an option names it") {
  for (const char* name :
       {"/run/weir/dataplane.sock", "dataplane.sock", "./xdp:eth0", "xdp:", "xdp:eth0", "xdp:eth0,eth1"}) {
    INFO(name);
    const Result<TargetSpec> target = target_of(name);
    REQUIRE(target);
    CHECK(target->name() == name);
    CHECK(target->xdp.has_value() == std::string(name).starts_with("xdp:"));
  }
  CHECK(target_of("xdp:eth0,eth1")->xdp == XdpTarget{{"eth0", "eth1"}, Attach::any});
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

TEST_CASE("targets of a policy that is wrong elsewhere are found") {
  const std::vector<TargetSpec> all =
      found_in("[{dataplane: /a}, {xdp: {interfaces: [eth0, eth1], attach: generic}}, {dataplane: /b}]");
  REQUIRE(all.size() == 3);
  CHECK(all[0].name() == "/a");
  CHECK(all[1] == TargetSpec{"", XdpTarget{{"eth0", "eth1"}, Attach::generic}});
  CHECK(all[2].name() == "/b");

  const std::vector<TargetSpec> some = found_in(
      "[~, text, [x], {dataplane: }, {xdp: eth0}, {xdp: {interfaces: eth0}}, {xdp: {attach: native}}, {unknown: x}, "
      "{xdp: {interfaces: [eth0, '', eth/1, [x], eth0, eth2], attach: faster, more: x}}, {xdp: {interfaces: [eth3]}}]");
  REQUIRE(some.size() == 1);
  CHECK(some[0] == TargetSpec{"", XdpTarget{{"eth0", "eth2"}, Attach::any}});
  CHECK(found_in("nothing").empty());
}
