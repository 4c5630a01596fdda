// Which way the steering program sends frames, as the kernel runs it (BPF_PROG_TEST_RUN). No socket listens there, so
// that all of them stay in the kernel; what they were meant for is what is counted. With sockets:
// tests/smoke/test_steer.py.
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "bpf/enforce/steering.h"
#include "bpf/program/weir-steer.skel.h"
#include "tests/catch.h"
#include "tests/unit/bpf/own_pins.h"

using namespace weir;
using namespace weir::xdp;

namespace {

using Bytes = std::vector<uint8_t>;

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Bytes be16(unsigned value) {
  return {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
}

Bytes ethernet(unsigned type, const Bytes& payload) {
  return Bytes(12, 2) + be16(type) + payload;
}

Bytes ipv4(uint8_t protocol, const Bytes& payload, unsigned fragment = 0) {
  return Bytes{0x45, 0} + be16(static_cast<unsigned>(20 + payload.size())) + Bytes{0, 1} + be16(fragment) +
         Bytes{64, protocol, 0, 0, 192, 0, 2, 1, 203, 0, 113, 5} + payload;
}

Bytes ipv6(uint8_t next, const Bytes& payload) {
  Bytes source(16), destination(16);
  source[0] = 0x20, source[15] = 1;
  destination[0] = 0x20, destination[15] = 5;
  return Bytes{0x60, 0, 0, 0} + be16(static_cast<unsigned>(payload.size())) + Bytes{next, 64} + source + destination +
         payload;
}

Bytes ports(unsigned source, unsigned destination) {
  return be16(source) + be16(destination) + Bytes(30);
}

struct Program {
  std::string bpf_dir;
  weir_steer_bpf* skeleton = nullptr;
  ~Program() {
    if (skeleton != nullptr) weir_steer_bpf__destroy(skeleton);
    for (const char* map : {"weir_steer", "weir_steered"}) unlink((bpf_dir + "/" + map).c_str());
    rmdir(bpf_dir.c_str());
  }

  // What took the frame: a rule's number from 0 on, or enum weir_steer_taker; -1: nothing, as nothing is applied.
  int taker_of(const Bytes& frame) const {
    const std::vector<uint64_t> before = counts();
    LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
                .repeat = 1);
    REQUIRE(bpf_prog_test_run_opts(bpf_program__fd(skeleton->progs.weir_steering), &run) == 0);
    CHECK(run.retval == XDP_PASS);
    const std::vector<uint64_t> after = counts();
    int taker = -1;
    for (size_t i = 0; i < before.size(); i++) {
      if (after[i] != before[i]) taker = static_cast<int>(i);
    }
    return taker;
  }

  std::vector<uint64_t> counts() const {
    const Result<SteeringState> state = read_steering(bpf_dir);
    REQUIRE(state);
    std::vector<uint64_t> counts;
    for (unsigned i = 0; state->rules && i < WEIR_STEER_TAKERS; i++) counts.push_back(state->rules->taken[i].packets);
    return counts;
  }

  weir_steer_totals totals() const { return read_steering(bpf_dir)->totals; }
};

// Empty: not root, or no BPF here.
std::unique_ptr<Program> load() {
  auto program = std::make_unique<Program>();
  program->bpf_dir = std::string(kDefaultBpfDir) + "/weir-test-steering-" + std::to_string(getpid());
  if (const Result<void> applied = apply_steering(program->bpf_dir, {}); !applied) {
    say_skipped((geteuid() == 0 ? "kernel: " : "root: ") + applied.error());
    return nullptr;
  }
  REQUIRE(clear_steering(program->bpf_dir));
  LIBBPF_OPTS(bpf_object_open_opts, options, .pin_root_path = program->bpf_dir.c_str());
  program->skeleton = weir_steer_bpf__open_opts(&options);
  REQUIRE(program->skeleton != nullptr);
  REQUIRE(weir_steer_bpf__load(program->skeleton) == 0);
  return program;
}

weir_steering rules_of(const std::vector<weir_steer_rule>& rules) {
  weir_steering steering = {};
  steering.version = WEIR_STEER_VERSION;
  for (const weir_steer_rule& rule : rules) steering.rule[steering.n_rules++] = rule;
  return steering;
}

weir_steer_rule port_rule(uint8_t asks, uint16_t first, uint16_t last) {
  weir_steer_rule rule = {};
  rule.asks = asks;
  const int side = (asks & WEIR_STEER_BY_DESTINATION_PORT) != 0;
  rule.first_port[side] = first;
  rule.last_port[side] = last;
  rule.to = WEIR_TO_WORKER;
  return rule;
}

}  // namespace

TEST_CASE("the steering program takes frames by the first rule that matches") {
  const std::unique_ptr<Program> program = load();
  if (!program) return;
  const Bytes udp4 = ethernet(0x0800, ipv4(17, ports(1000, 53)));
  const Bytes udp6 = ethernet(0x86dd, ipv6(17, ports(1000, 53)));
  CHECK(program->taker_of(udp4) == -1);
  CHECK(program->totals().end[WEIR_STEERED_NO_RULES].packets == 1);

  weir_steer_rule to4 = {};  // dst 203.0.113.5/32
  to4.family = 4;
  to4.to = WEIR_TO_WORKER;
  const uint8_t address[] = {203, 0, 113, 5}, all[] = {255, 255, 255, 255};
  memcpy(to4.address[1], address, sizeof address);
  memcpy(to4.mask[1], all, sizeof all);
  weir_steer_rule any6 = {};
  any6.family = 6;
  weir_steer_rule protocol = {};
  protocol.asks = WEIR_STEER_BY_PROTOCOL;
  protocol.protocol = 17;
  const std::vector<weir_steer_rule> rules = {port_rule(WEIR_STEER_BY_SOURCE_PORT, 1, 9),
                                              port_rule(WEIR_STEER_BY_DESTINATION_PORT, 54, 60), to4, any6, protocol};
  weir_steering steering = rules_of(rules);
  REQUIRE(apply_steering(program->bpf_dir, steering));

  const auto frame4 = [](unsigned source, unsigned destination, uint8_t number = 17) {
    return ethernet(0x0800, ipv4(number, ports(source, destination)));
  };
  const weir_steer_totals before = program->totals();
  CHECK(program->taker_of(udp4) == 2);
  CHECK(program->taker_of(udp6) == 3);
  CHECK(program->taker_of(frame4(1, 53)) == 0);
  CHECK(program->taker_of(frame4(9, 54)) == 0);
  CHECK(program->taker_of(frame4(10, 54)) == 1);
  CHECK(program->taker_of(frame4(10, 60, 6)) == 1);
  CHECK(program->taker_of(frame4(10, 61)) == 2);
  CHECK(program->taker_of(frame4(1, 1, 47)) == 2);  // GRE has no ports
  const weir_steer_totals after = program->totals();
  CHECK(after.end[WEIR_STEERED_NO_SOCKET].packets == before.end[WEIR_STEERED_NO_SOCKET].packets + 7);
  CHECK(after.end[WEIR_STEERED_TO_KERNEL].packets == before.end[WEIR_STEERED_TO_KERNEL].packets + 1);

  // Fragments, the first one too, have no ports; VLAN tags and extension headers are looked through.
  CHECK(program->taker_of(ethernet(0x0800, ipv4(17, ports(1, 54), 0x2000))) == 2);
  CHECK(program->taker_of(ethernet(0x0800, ipv4(17, ports(1, 54), 0x0010))) == 2);
  CHECK(program->taker_of(ethernet(0x0800, ipv4(17, ports(1, 54), 0x4000))) == 0);
  const Bytes first_fragment = Bytes{17, 0, 0, 1, 0, 0, 0, 9}, atomic_fragment = Bytes{17, 0, 0, 0, 0, 0, 0, 9};
  CHECK(program->taker_of(ethernet(0x86dd, ipv6(44, first_fragment + ports(1, 54)))) == 3);
  CHECK(program->taker_of(ethernet(0x86dd, ipv6(44, atomic_fragment + ports(1, 54)))) == 0);
  CHECK(program->taker_of(ethernet(0x86dd, ipv6(60, Bytes{17, 0, 1, 4, 0, 0, 0, 0} + ports(1, 54)))) == 0);
  CHECK(program->taker_of(ethernet(0x8100, be16(5) + be16(0x0800) + ipv4(17, ports(1, 54)))) == 0);

  // The link's own, before any rule.
  CHECK(program->taker_of(ethernet(0x0806, Bytes(46))) == WEIR_TAKEN_BY_LINK);
  CHECK(program->taker_of(ethernet(0x88cc, Bytes(46))) == WEIR_TAKEN_BY_LINK);
  for (const uint8_t type : Bytes{130, 133, 134, 135, 136, 137, 143}) {
    CHECK(program->taker_of(ethernet(0x86dd, ipv6(58, Bytes{type, 0} + Bytes(30)))) == WEIR_TAKEN_BY_LINK);
  }
  CHECK(program->taker_of(ethernet(0x86dd, ipv6(0, Bytes{58, 0, 5, 2, 0, 0, 1, 0, 143, 0} + Bytes(30)))) ==
        WEIR_TAKEN_BY_LINK);  // listener discovery has a router alert
  for (const uint8_t type : Bytes{1, 128, 129, 138, 255}) {
    CHECK(program->taker_of(ethernet(0x86dd, ipv6(58, Bytes{type, 0} + Bytes(30)))) == 3);
  }
  CHECK(program->taker_of(ethernet(0x0800, ipv4(58, Bytes{135, 0} + Bytes(30)))) == 2);

  // No rule's: malformed IP, too.
  steering = rules_of({});
  steering.default_to = steering.link_to = WEIR_TO_WORKER;
  REQUIRE(apply_steering(program->bpf_dir, steering));
  CHECK(program->taker_of(udp4) == WEIR_TAKEN_BY_DEFAULT);
  CHECK(program->taker_of(ethernet(0x0800, Bytes(46))) == WEIR_TAKEN_BY_DEFAULT);
  CHECK(program->taker_of(ethernet(0x0806, Bytes(46))) == WEIR_TAKEN_BY_LINK);

  // All 64 are looked at.
  REQUIRE(
      apply_steering(program->bpf_dir, rules_of(std::vector(63, port_rule(WEIR_STEER_BY_DESTINATION_PORT, 1, 52)))));
  CHECK(program->taker_of(udp4) == WEIR_TAKEN_BY_DEFAULT);
  std::vector<weir_steer_rule> full(63, port_rule(WEIR_STEER_BY_DESTINATION_PORT, 1, 52));
  full.push_back(port_rule(WEIR_STEER_BY_DESTINATION_PORT, 53, 53));
  REQUIRE(apply_steering(program->bpf_dir, rules_of(full)));
  CHECK(program->taker_of(udp4) == 63);

  // Rules of another version apply to nothing.
  steering = rules_of(full);
  steering.version++;
  REQUIRE(apply_steering(program->bpf_dir, steering));
  CHECK_FALSE(read_steering(program->bpf_dir));
}

int before_tests() {
  own_bpf_file_system();
  return 0;
}
