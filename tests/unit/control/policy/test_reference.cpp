// The reference classifier itself: each field of a flow, expiry, and frames of several layers.
#include <string>
#include <vector>

#include "control/policy/read/policy.h"
#include "tests/catch.h"
#include "tests/reference/classifier.h"

using namespace weir;
using namespace weir::control;
using namespace weir::reference;

namespace {

constexpr uint64_t kNow = 1'780'000'000;  // 2026-05-28T20:26:40Z

Policy parse(const std::string& text) {
  Diagnostics diagnostics;
  auto policy = parse_policy("a.yaml", text, diagnostics, kNow);
  INFO(text << format(diagnostics));
  REQUIRE(policy);
  return std::move(*policy);
}

Ipv6 address(const std::string& text) {
  const auto v4 = parse_ipv4(text);
  return v4 ? Ipv6{*v4} : *parse_ipv6(text);
}

PacketKeys packet(const char* src, const char* dst, uint8_t protocol) {
  PacketKeys keys;
  keys.family = parse_ipv4(src) ? 4 : 6;
  keys.src = address(src);
  keys.dst = address(dst);
  keys.protocol = protocol;
  return keys;
}
PacketKeys with_ports(const char* src, const char* dst, uint8_t protocol, uint16_t sport, uint16_t dport) {
  PacketKeys keys = packet(src, dst, protocol);
  keys.has_ports = true;
  keys.sport = sport;
  keys.dport = dport;
  return keys;
}
PacketKeys icmp(const char* src, const char* dst, uint8_t protocol, uint8_t type, uint8_t code) {
  PacketKeys keys = packet(src, dst, protocol);
  keys.has_icmp_type = keys.has_icmp_code = true;
  keys.icmp_type = type;
  keys.icmp_code = code;
  return keys;
}
PacketKeys tcp(uint8_t flags) {
  PacketKeys keys = with_ports("10.0.0.1", "203.0.113.9", 6, 1000, 80);
  keys.has_tcp_flags = true;
  keys.tcp_flags = flags;
  return keys;
}

PacketKeys header(size_t length, unsigned dscp, PacketKeys::Fragment fragment) {
  PacketKeys keys = packet("10.0.0.1", "203.0.113.9", 17);
  keys.length = length;
  keys.dscp = dscp;
  keys.fragment = fragment;
  return keys;
}
constexpr auto kWhole = PacketKeys::Fragment::none, kFirst = PacketKeys::Fragment::first,
               kLater = PacketKeys::Fragment::later;

constexpr const char* kA = "10.0.0.1";
constexpr const char* kB = "203.0.113.9";
constexpr const char* kA6 = "2001:db8::1";
constexpr const char* kB6 = "2001:db8::9";
constexpr uint8_t kFin = 1, kSyn = 2, kAck = 16;

struct Row {
  const char* entry;
  std::vector<PacketKeys> hits, misses;
};

}  // namespace

TEST_CASE("each field of a flow, hit and miss") {
  const Row rows[] = {
      {"{src: 10.0.0.0/8, dst: 203.0.113.9}",
       {packet(kA, kB, 6), packet("10.255.255.255", kB, 17), with_ports(kA, kB, 17, 1, 2)},
       {packet(kB, kA, 6), packet("11.0.0.0", kB, 6), packet(kA, "203.0.113.8", 6),
        packet("::a00:1", "::cb00:7109", 6)}},
      {"{src: \"2001:db8::/64\", dst: \"2001:db8::8-2001:db8::9\"}",
       {packet(kA6, kB6, 6), packet(kA6, "2001:db8::8", 6)},
       {packet(kB6, kA6, 6), packet(kA6, "2001:db8::a", 6), packet(kA, kB, 6)}},
      {"{dst: 203.0.113.9, proto: udp}",
       {packet(kA, kB, 17), with_ports(kA, kB, 17, 1, 2)},
       {packet(kA, kB, 6), packet(kB, kA, 17)}},
      {"{proto: gre}", {packet(kA, kB, 47), packet(kA6, kB6, 47)}, {packet(kA, kB, 46), packet(kA6, kB6, 0)}},
      {"{proto: 0}", {packet(kA, kB, 0)}, {packet(kA, kB, 1)}},
      {"{dport: 80-90}",
       {with_ports(kA, kB, 6, 1, 80), with_ports(kA6, kB6, 17, 1, 90), with_ports(kA, kB, 132, 1, 85)},
       {with_ports(kA, kB, 6, 85, 79), with_ports(kA, kB, 6, 80, 91), packet(kA, kB, 6)}},
      {"{src: 10.0.0.1, dport: 80}",
       {with_ports(kA, kB, 6, 1, 80)},
       {with_ports(kA, kB, 6, 80, 1), with_ports(kB, kA, 6, 1, 80), packet(kA, kB, 6)}},
      {"{sport: 1-65535}", {with_ports(kA, kB, 6, 1, 0)}, {with_ports(kA, kB, 6, 0, 1), packet(kA, kB, 6)}},
      {"{proto: tcp, sport: 53, dport: 53}",
       {with_ports(kA, kB, 6, 53, 53)},
       {with_ports(kA, kB, 17, 53, 53), with_ports(kA, kB, 6, 53, 54), with_ports(kA, kB, 6, 54, 53)}},
      {"{dst: 203.0.113.9, icmp: {type: 8}}",
       {icmp(kA, kB, 1, 8, 0), icmp(kA, kB, 1, 8, 3), icmp(kA, kB, 58, 8, 0)},
       {icmp(kA, kB, 1, 0, 8), icmp(kB, kA, 1, 8, 0), packet(kA, kB, 1)}},
      {"{icmp: {type: 3, code: 0}}",
       {icmp(kA, kB, 1, 3, 0), icmp(kA6, kB6, 58, 3, 0)},
       {icmp(kA, kB, 1, 3, 1), icmp(kA, kB, 1, 0, 0), packet(kA, kB, 1)}},
      {"{icmp: {code: 0}}", {icmp(kA, kB, 1, 255, 0)}, {icmp(kA, kB, 1, 0, 1), packet(kA, kB, 1), tcp(0)}},
      {"{proto: icmpv6, icmp: {type: 128}}", {icmp(kA6, kB6, 58, 128, 0)}, {icmp(kA6, kB6, 1, 128, 0)}},
      {"{tcp_flags: {set: [syn], mask: [syn, ack]}}",
       {tcp(kSyn), tcp(kSyn | kFin)},
       {tcp(kSyn | kAck), tcp(kAck), tcp(0), with_ports(kA, kB, 6, 1, 2)}},
      {"{tcp_flags: {set: [syn, fin]}}", {tcp(kSyn | kFin), tcp(0xff)}, {tcp(kSyn), tcp(kFin), tcp(0)}},
      {"{dport: 80, tcp_flags: {mask: [fin, syn, rst, psh, ack, urg, ece, cwr]}}",
       {tcp(0)},
       {tcp(1), tcp(0x80), with_ports(kA, kB, 6, 1, 80)}},
      {"{length: 64}", {header(64, 0, kWhole)}, {header(63, 0, kWhole), header(65, 0, kWhole)}},
      {"{length: 64-128}",
       {header(64, 0, kWhole), header(128, 0, kFirst)},
       {header(63, 0, kWhole), header(129, 0, kWhole)}},
      {"{dst: 203.0.113.9, length: 200-}",
       {header(200, 0, kWhole), header(70'000, 0, kWhole)},
       {header(199, 0, kWhole)}},
      {"{dscp: [46, 10-14]}",
       {header(64, 46, kWhole), header(64, 10, kWhole), header(64, 14, kLater)},
       {header(64, 9, kWhole), header(64, 15, kWhole), header(64, 45, kWhole), header(64, 0, kWhole)}},
      {"{dscp: 0-63}", {header(64, 0, kWhole), header(64, 63, kWhole)}, {}},
      {"{fragment: none}", {header(64, 0, kWhole)}, {header(64, 0, kFirst), header(64, 0, kLater)}},
      {"{fragment: first}", {header(64, 0, kFirst)}, {header(64, 0, kWhole), header(64, 0, kLater)}},
      {"{fragment: later}", {header(64, 0, kLater)}, {header(64, 0, kWhole), header(64, 0, kFirst)}},
      {"{proto: udp, fragment: any}", {header(64, 0, kFirst), header(64, 0, kLater)}, {header(64, 0, kWhole)}},
  };
  for (const Row& row : rows) {
    INFO(row.entry);
    const Policy policy =
        parse(std::string("version: 1\nlists:\n- name: a\n  action: drop\n  allow_any: true\n  entries:\n  - ") +
              row.entry + "\n");
    REQUIRE(policy.lists[0].flows().size() == 1);
    const Classifier index(policy);
    const auto check = [&](const std::vector<PacketKeys>& packets, weir_action action) {
      for (size_t i = 0; i < packets.size(); i++) {
        INFO((action == WEIR_DROP ? "hit " : "miss ") << i);
        const Classified verdict = classify_linear(policy, packets[i], kNow);
        CHECK(verdict.action == action);
        CHECK(index.classify(packets[i], kNow) == verdict);
      }
    };
    check(row.hits, WEIR_DROP);
    check(row.misses, WEIR_PASS);
  }
}

TEST_CASE("an entry is live while now < expires") {
  const char* const entries[] = {
      "{entry: 10.0.0.1, expires: 2026-12-01T00:00:00Z}",
      "{src: 10.0.0.0/8, expires: 2026-12-01T00:00:00Z}",
      "{src: 10.0.0.1, proto: udp, expires: 2026-12-01T00:00:00Z}",
  };
  constexpr uint64_t kExpires = 1'796'083'200;
  for (const char* entry : entries) {
    INFO(entry);
    const Policy policy =
        parse(std::string("version: 1\nlists:\n- name: a\n  action: drop\n  entries:\n  - ") + entry + "\n");
    const Classifier index(policy);
    for (const auto& [now, action] : {std::pair(uint64_t{0}, WEIR_DROP), std::pair(kExpires - 1, WEIR_DROP),
                                      std::pair(kExpires, WEIR_PASS), std::pair(UINT64_MAX, WEIR_PASS)}) {
      INFO(now);
      CHECK(classify_linear(policy, packet(kA, kB, 17), now).action == action);
      CHECK(index.classify(packet(kA, kB, 17), now).action == action);
    }
  }
  const Policy forever =
      parse("version: 1\nlists: [{name: a, action: drop, allow_any: true, entries: [10.0.0.1, {proto: esp}]}]\n");
  CHECK(classify_linear(forever, packet(kA, kB, 17), UINT64_MAX).action == WEIR_DROP);
  CHECK(classify_linear(forever, packet(kB, kA, 50), UINT64_MAX).action == WEIR_DROP);
}

TEST_CASE("a frame of several layers") {
  const Policy policy = parse(R"(version: 1
lists:
  - {name: friends, action: pass, entries: [10.0.0.1]}
  - {name: first, action: drop, entries: [10.0.0.1, 10.0.0.2]}
  - {name: second, action: drop, entries: [10.0.0.3, 10.0.0.4]}
  - {name: watch, action: drop, mode: monitor, entries: [10.0.0.1, 10.0.0.4, 10.0.0.5]}
  - {name: guests, action: pass, entries: [10.0.0.6]}
)");
  enum : unsigned { friends, first, second, watch, guests };
  using Lists = std::vector<unsigned>;
  struct Frame {
    std::vector<const char*> sources;  // outermost first
    ClassifiedFrame expected;
  };
  const Frame frames[] = {
      {{"10.0.0.9"}, {{}, {}, {}, -1, WEIR_PASS}},
      {{"10.0.0.1"}, {Lists{friends, first, watch}, {}, {}, friends, WEIR_PASS}},
      {{"10.0.0.9", "10.0.0.9"}, {{}, {}, {}, -1, WEIR_PASS}},
      // Any layer drops the frame; a pass list exempts its own layer only.
      {{"10.0.0.9", "10.0.0.3"}, {Lists{second}, {}, Lists{second}, second, WEIR_DROP}},
      {{"10.0.0.3", "10.0.0.9"}, {Lists{second}, {}, Lists{second}, second, WEIR_DROP}},
      {{"10.0.0.1", "10.0.0.3"}, {Lists{friends, first, second, watch}, {}, Lists{second}, second, WEIR_DROP}},
      {{"10.0.0.3", "10.0.0.1"}, {Lists{friends, first, second, watch}, {}, Lists{second}, second, WEIR_DROP}},
      // The outermost layer that drops is credited, whatever the order of the lists.
      {{"10.0.0.3", "10.0.0.2"}, {Lists{first, second}, {}, Lists{first, second}, second, WEIR_DROP}},
      {{"10.0.0.2", "10.0.0.3"}, {Lists{first, second}, {}, Lists{first, second}, first, WEIR_DROP}},
      // Passed: the outermost layer with a pass list.
      {{"10.0.0.9", "10.0.0.1"}, {Lists{friends, first, watch}, {}, {}, friends, WEIR_PASS}},
      {{"10.0.0.6", "10.0.0.1"}, {Lists{friends, first, watch, guests}, {}, {}, guests, WEIR_PASS}},
      // Monitored lists: where no pass list matches in the same layer, and each once.
      {{"10.0.0.5", "10.0.0.5"}, {Lists{watch}, Lists{watch}, {}, -1, WEIR_PASS}},
      {{"10.0.0.1", "10.0.0.5"}, {Lists{friends, first, watch}, Lists{watch}, {}, friends, WEIR_PASS}},
      {{"10.0.0.6", "10.0.0.4"}, {Lists{second, watch, guests}, Lists{watch}, Lists{second}, second, WEIR_DROP}},
      {{"10.0.0.9", "10.0.0.9", "10.0.0.9", "10.0.0.2"}, {Lists{first}, {}, Lists{first}, first, WEIR_DROP}},
  };
  const Classifier index(policy);
  for (const Frame& frame : frames) {
    std::string text;
    std::vector<PacketKeys> layers;
    for (const char* source : frame.sources) {
      text += std::string(source) + " ";
      layers.push_back(packet(source, kB, 17));
    }
    INFO(text);
    CHECK(classify_frame(policy, layers, kNow) == frame.expected);
    CHECK(index.classify_frame(layers, kNow) == frame.expected);
  }
  // A default of drop: a layer that no list matches drops the frame, and a layer that a pass list matches does not.
  Policy closed = policy;
  closed.default_action = WEIR_DROP;
  const std::vector<PacketKeys> half = {packet("10.0.0.1", kB, 17), packet("10.0.0.9", kB, 17)};
  CHECK(classify_frame(closed, half, kNow) == ClassifiedFrame{{friends, first, watch}, {}, {}, -1, WEIR_DROP});
  const std::vector<PacketKeys> whole = {packet("10.0.0.1", kB, 17), packet("10.0.0.6", kB, 17)};
  CHECK(classify_frame(closed, whole, kNow) ==
        ClassifiedFrame{{friends, first, watch, guests}, {}, {}, friends, WEIR_PASS});
}

TEST_CASE("entries match within one layer") {
  const Policy policy =
      parse("version: 1\nlists: [{name: a, action: drop, entries: [{src: 10.0.0.1, dst: 203.0.113.9}]}]\n");
  const std::vector<PacketKeys> apart = {packet("10.0.0.1", "10.0.0.2", 4), packet("10.0.0.2", "203.0.113.9", 6)};
  CHECK(classify_frame(policy, apart, kNow).action == WEIR_PASS);
  const std::vector<PacketKeys> inside = {packet("10.0.0.2", "10.0.0.2", 4), packet("10.0.0.1", "203.0.113.9", 6)};
  CHECK(classify_frame(policy, inside, kNow).action == WEIR_DROP);
}
