// Packets as text: there and back, and what is refused.
#include "control/answer/packet_text.h"
#include "tests/catch.h"

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
  };
  for (const Row& row : rows) {
    INFO(row.text);
    const auto packet = parse_packet(row.text);
    if (!packet) FAIL(packet.error());
    CHECK(packet->has == row.has);
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
      {"src 1.2.3.4 dst 1.2.3.4 proto tcp dport 0", "`dport` is `0`: it must be a port from 1 to 65535"},
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

}  // namespace weir::control
