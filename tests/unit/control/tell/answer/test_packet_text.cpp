// Packets as text: there and back, and what is refused.
#include <cstring>

#include "control/policy/model/packet.h"
#include "control/policy/read/policy.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/text.h"
#include "filter/format/residual.h"
#include "filter/frame/tunnel.h"
#include "tests/catch.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/filter/frame/random_frames.h"

namespace weir::control {

TEST_CASE("packets as text") {
  struct Row {
    const char* text;
    const char* canonical;
    unsigned has;
  };
  const Row rows[] = {
      {"src 10.0.0.1 dst 203.0.113.9", "src 10.0.0.1 dst 203.0.113.9", 0},
      {"  dst 203.0.113.9\tsrc 10.0.0.1 ", "src 10.0.0.1 dst 203.0.113.9", 0},
      {"src 10.0.0.1 dst 203.0.113.9 proto 6 dport 443", "src 10.0.0.1 dst 203.0.113.9 proto tcp dport 443",
       WEIR_HAS_PORTS},
      {"src 2001:DB8::1 dst :: proto udp sport 1 dport 65535", "src 2001:db8::1 dst :: proto udp sport 1 dport 65535",
       WEIR_HAS_PORTS},
      {"src 1.2.3.4 dst 1.2.3.4 proto icmp icmp-type 8", "src 1.2.3.4 dst 1.2.3.4 proto icmp icmp-type 8",
       WEIR_HAS_ICMP_TYPE},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp fragment later dscp 46 length 1500",
       "src 1.2.3.4 dst 1.2.3.4 proto udp length 1500 dscp 46 fragment later", 0},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp tcp-flags syn,ack sport 7",
       "src 1.2.3.4 dst 1.2.3.4 proto tcp sport 7 tcp-flags syn,ack", WEIR_HAS_PORTS | WEIR_HAS_TCP_FLAGS},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp tcp-flags none", "src 1.2.3.4 dst 1.2.3.4 proto tcp tcp-flags none",
       WEIR_HAS_TCP_FLAGS},
      {"src 1.2.3.4 dst 1.2.3.4 proto 200", "src 1.2.3.4 dst 1.2.3.4 proto 200", 0},
      {"src 1.2.3.4 dst 1.2.3.4 proto 0", "src 1.2.3.4 dst 1.2.3.4 proto 0", 0},
      {"src 1.2.3.4 dst 1.2.3.4 proto icmp icmp-code 0", "src 1.2.3.4 dst 1.2.3.4 proto icmp icmp-code 0",
       WEIR_HAS_ICMP_CODE},
      {"src 1.2.3.4 dst 1.2.3.4 dscp 0 fragment none", "src 1.2.3.4 dst 1.2.3.4", 0},
      {"src 1.2.3.4 dst 1.2.3.4 proto 253", "src 1.2.3.4 dst 1.2.3.4 proto 253", 0},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp sport 0", "src 1.2.3.4 dst 1.2.3.4 proto udp sport 0", WEIR_HAS_PORTS},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp dport 0 sport 0", "src 1.2.3.4 dst 1.2.3.4 proto udp sport 0 dport 0",
       WEIR_HAS_PORTS},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp dport 53 length 24", "src 1.2.3.4 dst 1.2.3.4 proto udp dport 53 length 24",
       WEIR_HAS_PORTS},
      {"src :: dst :: length 65575", "src :: dst :: length 65575", 0},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto packet = parse_packet(row.text);
    if (!packet) FAIL(packet.error());
    CHECK((packet->has & ~kLacksProtocol) == row.has);
    CHECK(packet_text(*packet) == row.canonical);
    const auto again = parse_packet(packet_text(*packet));
    REQUIRE(again);
    CHECK(packet_text(*again) == row.canonical);
  }
}

TEST_CASE("packets that are refused, with the reason") {
  struct Row {
    const char* text;
    const char* reason;
  };
  const Row rows[] = {
      {"", "a packet has both addresses: `src` is missing"},
      {"src 1.2.3.4", "a packet has both addresses: `dst` is missing"},
      {"src 1.2.3.4 dst", "`dst` has no value"},
      {"src 1.2.3.4 src 1.2.3.4", "`src` is given twice"},
      {"src 1.2.3.4 dst 2001:db8::1", "`src` and `dst` are of different families"},
      {"src 1.2.3.0/24 dst 1.2.3.4", "`src` is `1.2.3.0/24`: it must be an address"},
      {"source 1.2.3.4 dst 1.2.3.4", "`source` is no field of a packet; there are src, dst, proto, sport, dport,"},
      {"src 1.2.3.4 dst 1.2.3.4 dport 443", "`proto` is missing: `dport` depends on it"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp dport 65536", "`dport` is `65536`: it must be a port from 0 to 65535"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp dport 00", "`dport` is `00`: it must be a port from 0 to 65535"},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp sport 53 fragment later", "later fragments have no ports"},
      {"src 1.2.3.4 dst 1.2.3.4 proto icmp icmp-type 8 fragment later", "later fragments have no ICMP header"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp tcp-flags syn fragment later", "later fragments have no TCP flags"},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp icmp-type 8 dport 1", "packets of this protocol have no ICMP header"},
      {"src 1.2.3.4 dst 1.2.3.4 proto icmp icmp-type 8 dport 1", "packets of this protocol have no ports"},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp dport 53 length 23",
       "packets with all else that it names have 24 bytes or more"},
      {"src :: dst :: length 39", "packets with all else that it names have 40 bytes or more"},
      {"src 1.2.3.4 dst 1.2.3.4 length 65536", "its length is 65535 bytes at most"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp dport 1-2", "`dport` is `1-2`: a packet has one value\n"},
      {"src 1.2.3.4 dst 1.2.3.4 length 64-", "`length` is `64-`: a packet has one value\n"},
      {"src 1.2.3.4 dst 1.2.3.4 dscp 10,12", "`dscp` is `10,12`: a packet has one value\n"},
      {"src 1.2.3.4 dst 1.2.3.4 fragment any", "`fragment` is `any`: a packet has one value\n"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp tcp-flags syn/syn,ack",
       "`tcp-flags` is `syn/syn,ack`: a packet has one value\n"},
      {"src 1.2.3.4 dst 1.2.3.4 dscp 1 dscp 2", "`dscp` is given twice"},
      {"src 1.2.3.4 dst 1.2.3.4 proto gre dport 1", "packets of this protocol have no ports"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp icmp-type 8", "packets of this protocol have no ICMP header"},
      {"src 1.2.3.4 dst 1.2.3.4 proto udp tcp-flags syn", "packets of this protocol have no TCP flags"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp tcp-flags sin", "`tcp-flags` is `sin`: it must be a TCP flag"},
      {"src 1.2.3.4 dst 1.2.3.4 dscp 64", "`dscp` is `64`: it must be a number from 0 to 63"},
      {"src 1.2.3.4 dst 1.2.3.4 fragment some", "`fragment` is `some`: it must be none, first, later"},
      {"src 1.2.3.4 dst 1.2.3.4 proto tpc", "`proto` is `tpc`: it must be a protocol's name or number"},
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto packet = parse_packet(row.text);
    REQUIRE_FALSE(packet);
    INFO(packet.error());
    CHECK(packet.error().find(row.reason) == 0);
    CHECK(packet.error().find("\nhint: give a packet as in ") != std::string::npos);
  }
}

TEST_CASE("a field that is left out is none that an entry could ask for") {
  struct Row {
    const char* entry;
    const char* packet;
    bool matches;
  };
  const Row rows[] = {
      {"{src: 10.0.0.0/8, proto: udp, sport: 0-1023}", "proto udp dport 53", false},
      {"{src: 10.0.0.0/8, proto: udp, sport: 0-65535}", "proto udp dport 53", false},
      {"{src: 10.0.0.0/8, proto: udp, sport: 0-1023}", "proto udp sport 0", true},
      {"{src: 10.0.0.0/8, proto: udp, sport: 0-1023}", "proto udp sport 0 dport 53", true},
      {"{src: 10.0.0.0/8, proto: udp, dport: 0-1023}", "proto udp sport 53", false},
      {"{src: 10.0.0.0/8, proto: udp, dport: 0-1023}", "proto udp dport 0", true},
      {"{src: 10.0.0.0/8, proto: udp, dport: 53}", "proto udp dport 53", true},
      {"{src: 10.0.0.0/8, proto: udp, dport: 53}", "proto udp dport 53 sport 0", true},
      {"{src: 10.0.0.0/8, proto: udp, sport: 0-1023, dport: 53}", "proto udp dport 53", false},
      {"{src: 10.0.0.0/8, proto: 253}", "", false},
      {"{src: 10.0.0.0/8, proto: 0}", "", false},
      {"{src: 10.0.0.0/8, proto: 0}", "proto 0", true},
      {"{src: 10.0.0.0/8, proto: 253}", "proto 253", true},
      {"{src: 10.0.0.0/8, length: 20-}", "", false},
      {"{src: 10.0.0.0/8, proto: icmp, icmp: {type: 0}}", "proto icmp icmp-code 0", false},
      {"{src: 10.0.0.0/8, dscp: 0, fragment: none}", "", true},
      {"\"10.0.0.8:53\"", "proto udp dport 53", false},
      {"\"10.0.0.8:53\"", "proto udp sport 53", true},
  };
  for (const Row& row : rows) {
    INFO(row.entry << " " << row.packet);
    Diagnostics diagnostics;
    const auto policy = parse_policy(
        "a.yaml", std::string("version: 1\nlists:\n  - {name: a, action: drop, entries: [") + row.entry + "]}\n",
        diagnostics);
    INFO(format(diagnostics));
    REQUIRE(policy);
    const std::string key = std::string("src 10.0.0.8 dst 9.9.9.9 ") + row.packet;
    const Result<PacketExplanation> alone = explain_packet({policy->lists, WEIR_PASS, WEIR_PASS, 0}, key, 0);
    if (!alone) FAIL(alone.error());
    CHECK(alone->origins.size() == (row.matches ? 1 : 0));
    CHECK(alone->verdict.action == (row.matches ? "drop" : "pass"));
    const BuiltSnapshot snapshot = build_unproven(*policy, 1);
    const Result<PacketExplanation> enforced = explain_packet({snapshot.view(), policy->lists}, key, 0);
    REQUIRE(enforced);
    CHECK(enforced->verdict.action == (row.matches ? "drop" : "pass"));
  }
}

TEST_CASE("the text of a frame's packet reads back as the same packet") {
  constexpr uint8_t kNoFields = WEIR_INCOMPLETE | WEIR_OPEN_END;
  test::Random random(1);
  size_t packets = 0, with_port_0 = 0;
  for (int n = 0; n < 100'000; n++) {
    test::Bytes frame = test::random_frame(random);
    weir_packet layers[WEIR_MAX_LAYERS] = {};
    filter::InnerLayers inner = {};
    if (filter::parse_layers(frame.data(), static_cast<uint32_t>(frame.size()), WEIR_TUNNELS, layers[0], inner) !=
        filter::Outcome::ip) {
      continue;
    }
    std::copy_n(inner.layer, inner.n, layers + 1);
    for (uint32_t i = 0; i <= inner.n; i++) {
      weir_packet packet = layers[i];
      if (random.one_in(8)) packet.port[random.below(2)] = 0;
      weir_clear_absent(&packet);
      packet.has = static_cast<uint8_t>(packet.has & ~kNoFields);
      const std::string text = packet_text(packet);
      INFO(text);
      const Result<weir_packet> again = parse_packet(text);
      if (!again) FAIL(again.error());
      REQUIRE(memcmp(&*again, &packet, sizeof packet) == 0);
      packets++;
      with_port_0 += (packet.has & WEIR_HAS_PORTS) != 0 && (packet.port[0] == 0 || packet.port[1] == 0);
    }
  }
  CHECK(packets > 50'000);
  CHECK(with_port_0 > 1000);
}

}  // namespace weir::control
