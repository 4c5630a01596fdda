// What `setup` writes into configuration files.
#include "control/ctl/setup_files.h"
#include "tests/catch.h"

using namespace weir;
using namespace weir::control::ctl;

namespace {

const std::string kTarget = "xdp: {interfaces: [eth0]}";

std::string with_xdp(const std::string& policy) {
  const Result<std::string> text = with_target(policy, kTarget);
  return text ? *text : "error: " + text.error();
}

}  // namespace

TEST_CASE("a target is added where targets are, and comments stay") {
  CHECK(with_xdp("version: 1\nlists:\n  - name: a\n") ==
        "version: 1\ntargets:\n  - xdp: {interfaces: [eth0]}\n\nlists:\n  - name: a\n");
  CHECK(with_xdp("version: 1") == "version: 1\ntargets:\n  - xdp: {interfaces: [eth0]}\n\n");
  CHECK(with_xdp("targets: []   # none yet\n#  - dataplane: a\nlists: []\n") ==
        "targets:\n  - xdp: {interfaces: [eth0]}\n#  - dataplane: a\nlists: []\n");
  CHECK(with_xdp("# targets: [a]\ntargets:  # of mine\n  # first\n    - dataplane: a\n") ==
        "# targets: [a]\ntargets:  # of mine\n    - xdp: {interfaces: [eth0]}\n  # first\n    - dataplane: a\n");
  CHECK(with_xdp("targets:\n- dataplane: a\n") == "targets:\n- xdp: {interfaces: [eth0]}\n- dataplane: a\n");
  CHECK(with_xdp("targets:\nlists: []\n") == "targets:\n  - xdp: {interfaces: [eth0]}\nlists: []\n");
}

TEST_CASE("targets in one line are left to a person") {
  CHECK(with_xdp("version: 1\ntargets: [{dataplane: a}]\n") ==
        "error: line 2 has all targets in one line\nhint: add {xdp: {interfaces: [eth0]}} to them by hand");
}

TEST_CASE("an interface joins the xdp target that is there") {
  const std::string more = "    - xdp: {attach: native, interfaces: [eth0, eth1, eth2]}  # mine\n";
  CHECK(with_interface("targets:\n    - xdp: {attach: native, interfaces: [eth0, eth1]}  # mine\n", "eth2") ==
        "targets:\n" + more);
  CHECK(with_interface("targets: [{xdp: {interfaces: []}}]\n", "eth0") == "targets: [{xdp: {interfaces: [eth0]}}]\n");
  CHECK_FALSE(with_interface("targets:\n#  - xdp: {interfaces: [eth0]}\n", "eth1"));
  CHECK_FALSE(with_interface("targets:\n  - xdp:\n      interfaces:\n        - eth0\n", "eth1"));
}

TEST_CASE("ports take the place of empty EAL_OPTIONS alone") {
  const std::vector<std::string> ports = {"0000:01:00.0", "0000:01:00.1"};
  const std::string line = "EAL_OPTIONS=\"-l 1 -a 0000:01:00.0 -a 0000:01:00.1\"\n";
  CHECK(*with_ports("# EAL\n#EAL_OPTIONS=\"-l 9\"\nEAL_OPTIONS=\"\"\n", ports) ==
        "# EAL\n#EAL_OPTIONS=\"-l 9\"\n" + line);
  CHECK(*with_ports("", ports) == line);
  CHECK(*with_ports(line, ports) == line);
  CHECK(with_ports("A=1\nEAL_OPTIONS=\"-l 2\"\n", ports).error().find("line 2 has EAL_OPTIONS=\"-l 2\"") == 0);
}
