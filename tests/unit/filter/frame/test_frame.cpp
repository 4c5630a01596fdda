#include <cstring>
#include <memory>
#include <string>

#include "filter/frame/frame.h"
#include "tests/catch.h"
#include "tests/unit/filter/frame/frames.h"

using namespace weir::filter;
using namespace weir::test;

namespace {

struct Parsed {
  Outcome outcome;
  Headers headers;
};

// On a heap buffer of exactly this size, so that AddressSanitizer sees a read past the end.
Parsed parse(const Bytes& frame, size_t length) {
  std::unique_ptr<uint8_t[]> exact(new uint8_t[length]);
  std::copy_n(frame.begin(), length, exact.get());
  Parsed parsed = {};
  parsed.outcome = parse_frame(exact.get(), static_cast<uint32_t>(length), parsed.headers);
  return parsed;
}

Parsed parse(const Bytes& frame) {
  return parse(frame, frame.size());
}

// What must be said of a frame, and of each of its beginnings.
struct Row {
  std::string name;
  Bytes frame;
  uint8_t family;
  uint8_t protocol;                  // of the whole frame
  size_t ip_at;                      // where the IP header starts
  size_t trusted_from;               // lengths from here on are `ip`
  size_t complete_from;              // shorter ones are `incomplete`; 0: never
  size_t ports_from;                 // from here on there are ports; 0: never
  Outcome cut = Outcome::malformed;  // of lengths from ip_at to trusted_from
  size_t icmp_from = 0;              // from here on there are type and code; 0: never
  size_t flags_from = 0;             // from here on there are TCP flags; 0: never
};

size_t icmp_from(uint8_t protocol, size_t header_at) {
  return protocol == kIcmp || protocol == kIcmp6 ? header_at + 2 : 0;
}

size_t flags_from(uint8_t protocol, const Bytes& payload, size_t header_at) {
  return protocol == kTcp && payload.size() >= 14 ? header_at + 14 : 0;
}

Row v4_row(std::string name, Bytes in_front, const V4& packet, bool ports, Outcome cut = Outcome::malformed) {
  const size_t at = in_front.size();
  const size_t header = 20 + packet.option_words * 4;
  return {std::move(name),
          in_front + ipv4(packet),
          4,
          packet.protocol,
          at,
          at + header,
          0,
          ports ? at + header + 4 : 0,
          cut,
          icmp_from(packet.protocol, at + header),
          flags_from(packet.protocol, packet.payload, at + header)};
}

// extension_bytes: of the walked chain.
Row v6_row(std::string name, Bytes in_front, const V6& packet, uint8_t protocol, size_t extension_bytes, bool ports,
           Outcome cut = Outcome::malformed) {
  const size_t at = in_front.size();
  const size_t complete = extension_bytes == 0 ? 0 : at + 40 + extension_bytes;
  return {std::move(name),
          in_front + ipv6(packet),
          6,
          protocol,
          at,
          at + 40,
          complete,
          ports ? at + 40 + extension_bytes + 4 : 0,
          cut,
          icmp_from(protocol, at + 40 + extension_bytes),
          flags_from(packet.next, packet.payload, at + 40 + extension_bytes)};
}

std::vector<Row> rows() {
  const Bytes eth4 = ethernet(0x0800);
  const Bytes eth6 = ethernet(0x86dd);
  std::vector<Row> rows;
  for (const uint8_t protocol : std::initializer_list<uint8_t>{6, 17, 132, 33, 136}) {
    V4 packet4;
    packet4.protocol = protocol;
    rows.push_back(v4_row("v4 protocol " + std::to_string(protocol), eth4, packet4, true));
    V6 packet6;
    packet6.next = protocol;
    rows.push_back(v6_row("v6 protocol " + std::to_string(protocol), eth6, packet6, protocol, 0, true));
  }
  for (const uint8_t protocol : std::initializer_list<uint8_t>{1, 2, 47, 50, 51, 58, 59, 255}) {
    V4 packet4;
    packet4.protocol = protocol;
    rows.push_back(v4_row("v4 without ports " + std::to_string(protocol), eth4, packet4, false));
  }
  for (const uint8_t next : std::initializer_list<uint8_t>{1, 47, 50, 58, 59, 255}) {
    V6 packet6;
    packet6.next = next;
    rows.push_back(v6_row("v6 end of walk " + std::to_string(next), eth6, packet6, next, 0, false));
  }

  for (const uint8_t protocol : {kTcp, kIcmp, kIcmp6}) {
    const Bytes payload = protocol == kTcp ? tcp(0x12) : icmp(8, 3);
    const std::string name = "whole header of protocol " + std::to_string(protocol);
    rows.push_back(v4_row("v4, " + name, eth4, {protocol, payload}, protocol == kTcp));
    rows.push_back(v6_row("v6, " + name, eth6, {protocol, payload}, protocol, 0, protocol == kTcp));
  }

  V4 options;
  options.option_words = 10;
  rows.push_back(v4_row("v4 options", eth4, options, true));
  V4 unset_length;
  unset_length.total_length = 0;
  rows.push_back(v4_row("v4 total length 0", eth4, unset_length, true));
  V4 long_length;
  long_length.total_length = 1500;
  rows.push_back(v4_row("v4 total length behind the frame", eth4, long_length, true));
  V4 padded;
  padded.total_length = 23;
  rows.push_back(v4_row("v4 ports in the padding", eth4, padded, false));
  V4 first;
  first.fragment = 0x2000;
  rows.push_back(v4_row("v4 first fragment", eth4, first, true));
  V4 later;
  later.fragment = 0x0001;
  rows.push_back(v4_row("v4 later fragment", eth4, later, false));

  for (const unsigned type : {0x8100, 0x88a8, 0x9100}) {
    rows.push_back(v4_row("vlan v4", ethernet(type) + vlan(0x0800), {}, true));
    rows.push_back(v6_row("vlan v6", ethernet(type) + vlan(0x86dd), {}, kUdp, 0, true));
  }
  const Bytes eight_vlans = ethernet(0x88a8) + times(3, vlan(0x9100)) + times(4, vlan(0x8100));
  rows.push_back(v4_row("eight vlans", eight_vlans + vlan(0x0800), {}, true));
  for (const unsigned type : {0x8847, 0x8848}) {
    rows.push_back(v4_row("mpls v4", ethernet(type) + mpls(true), {}, true, Outcome::not_ip));
    rows.push_back(v6_row("mpls v6", ethernet(type) + mpls(true), {}, kUdp, 0, true, Outcome::not_ip));
  }
  rows.push_back(
      v4_row("eight labels", ethernet(0x8847) + times(7, mpls(false)) + mpls(true), {}, true, Outcome::not_ip));
  rows.push_back(v4_row("six labels behind two vlans",
                        ethernet(0x88a8) + vlan(0x8100) + vlan(0x8847) + times(5, mpls(false)) + mpls(true), options,
                        true, Outcome::not_ip));
  rows.push_back(v4_row("pppoe v4", ethernet(0x8864) + pppoe(0x0021), {}, true));
  rows.push_back(v6_row("pppoe v6", ethernet(0x8864) + pppoe(0x0057), {}, kUdp, 0, true));
  rows.push_back(v4_row("pppoe behind eight vlans", eight_vlans + vlan(0x8864) + pppoe(0x0021), {}, true));

  for (const uint8_t number : std::initializer_list<uint8_t>{0, 43, 60, 135, 139, 140}) {
    V6 packet;
    packet.next = number;
    packet.payload = extension(kUdp, 2) + udp_payload();
    rows.push_back(v6_row("v6 extension " + std::to_string(number), eth6, packet, kUdp, 24, true));
  }
  V6 ah;
  ah.next = 51;
  ah.payload = authentication(kTcp, 4) + udp_payload();
  rows.push_back(v6_row("v6 authentication", eth6, ah, kTcp, 24, true));
  V6 first6;
  first6.next = 44;
  first6.payload = fragment(kUdp, 1) + udp_payload();
  rows.push_back(v6_row("v6 first fragment", eth6, first6, kUdp, 8, true));
  V6 later6;
  later6.next = 44;
  later6.payload = fragment(60, 8) + extension(kUdp) + udp_payload();
  rows.push_back(v6_row("v6 later fragment: the fragment header's next header", eth6, later6, 60, 8, false));
  V6 sixteen;
  sixteen.next = 60;
  sixteen.payload = times(15, extension(60)) + extension(kUdp) + udp_payload();
  rows.push_back(v6_row("v6 sixteen extensions", eth6, sixteen, kUdp, 16 * 8, true));
  V6 longest;
  longest.next = 0;
  longest.payload = extension(kUdp, 255) + udp_payload();
  rows.push_back(v6_row("v6 longest extension", eth6, longest, kUdp, 2048, true));
  V6 unset_length6;
  unset_length6.payload_length = 0;
  rows.push_back(v6_row("v6 payload length 0", eth6, unset_length6, kUdp, 0, true));
  V6 padded6;
  padded6.payload_length = 3;
  rows.push_back(v6_row("v6 ports in the padding", eth6, padded6, kUdp, 0, false));
  return rows;
}

void check_addresses(const Headers& headers, uint8_t family, const uint8_t* ip) {
  if (family == 4) {
    CHECK(memcmp(&headers.address[kSource][0], ip + 12, 4) == 0);
    CHECK(memcmp(&headers.address[kDestination][0], ip + 16, 4) == 0);
    CHECK(headers.address[kSource][0] >> 32 == 0);
    CHECK(headers.address[kDestination][0] >> 32 == 0);
  } else {
    CHECK(memcmp(headers.address[kSource], ip + 8, 16) == 0);
    CHECK(memcmp(headers.address[kDestination], ip + 24, 16) == 0);
  }
}

}  // namespace

TEST_CASE("every encapsulation, whole and cut at every byte") {
  for (const Row& row : rows()) {
    for (size_t length = 0; length <= row.frame.size(); length++) {
      INFO(row.name << ", " << length << " of " << row.frame.size() << " bytes");
      const Parsed parsed = parse(row.frame, length);
      const Outcome expected = length < row.ip_at          ? Outcome::malformed
                               : length < row.trusted_from ? row.cut
                                                           : Outcome::ip;
      REQUIRE(parsed.outcome == expected);
      if (expected != Outcome::ip) continue;
      const Headers& headers = parsed.headers;
      REQUIRE(headers.family == row.family);
      REQUIRE(has(headers, WEIR_INCOMPLETE) == (length < row.complete_from));
      REQUIRE(has(headers, WEIR_HAS_PORTS) == (row.ports_from != 0 && length >= row.ports_from));
      REQUIRE(has(headers, WEIR_HAS_ICMP_TYPE) == (row.icmp_from != 0 && length >= row.icmp_from - 1));
      REQUIRE(has(headers, WEIR_HAS_ICMP_CODE) == (row.icmp_from != 0 && length >= row.icmp_from));
      REQUIRE(has(headers, WEIR_HAS_TCP_FLAGS) == (row.flags_from != 0 && length >= row.flags_from));
      if (has(headers, WEIR_HAS_ICMP_TYPE)) CHECK(headers.icmp_type == row.frame[row.icmp_from - 2]);
      if (has(headers, WEIR_HAS_ICMP_CODE)) CHECK(headers.icmp_code == row.frame[row.icmp_from - 1]);
      if (has(headers, WEIR_HAS_TCP_FLAGS)) CHECK(headers.tcp_flags == row.frame[row.flags_from - 1]);
      if (!has(headers, WEIR_INCOMPLETE)) REQUIRE(headers.protocol == row.protocol);
      check_addresses(headers, row.family, row.frame.data() + row.ip_at);
      if (has(headers, WEIR_HAS_PORTS)) {
        CHECK(memcmp(headers.port, row.frame.data() + row.ports_from - 4, 4) == 0);
        const bool all_there = headers.protocol != kTcp || has(headers, WEIR_HAS_TCP_FLAGS);
        // Bytes behind would lengthen a packet whose header leaves its end open.
        CHECK(decided(parsed.outcome, headers) == (all_there && !has(headers, WEIR_OPEN_END)));
      }
    }
  }
}

TEST_CASE("frames that are not IP") {
  V4 bad_sum;
  Bytes wrong_checksum = ethernet(0x8847) + mpls(true) + ipv4(bad_sum);
  wrong_checksum[14 + 4 + 10] ^= 1;
  V4 short_header;
  short_header.version_ihl = 0x44;
  const std::pair<const char*, Bytes> frames[] = {
      {"arp", ethernet(0x0806) + Bytes(28)},
      {"802.3 length", ethernet(46) + ipv4({})},
      {"pppoe discovery", ethernet(0x8863) + pppoe(0x0021) + ipv4({})},
      {"pppoe version", ethernet(0x8864) + pppoe(0x0021, 0x21) + ipv4({})},
      {"pppoe code", ethernet(0x8864) + pppoe(0x0021, 0x11, 9) + ipv4({})},
      {"ppp control", ethernet(0x8864) + pppoe(0xc021) + Bytes(20)},
      {"mpls pseudowire", ethernet(0x8847) + mpls(true) + Bytes(40)},
      {"mpls v4 checksum", wrong_checksum},
      {"mpls v4 header too short", ethernet(0x8847) + mpls(true) + ipv4(short_header)},
      {"mpls nothing behind", ethernet(0x8847) + mpls(true)},
      {"vlan arp", ethernet(0x8100) + vlan(0x0806) + Bytes(28)},
      {"mpls behind pppoe", ethernet(0x8864) + pppoe(0x0281) + mpls(true) + ipv4({})},
  };
  for (const auto& [name, frame] : frames) {
    INFO(name);
    CHECK(parse(frame).outcome == Outcome::not_ip);
  }
}

TEST_CASE("malformed frames") {
  V4 short_header, length_below_header, version6;
  short_header.version_ihl = 0x44;
  length_below_header.total_length = 19;
  version6.version_ihl = 0x65;
  const Bytes nine_vlans = ethernet(0x8100) + times(8, vlan(0x8100)) + vlan(0x0800);
  const std::pair<const char*, Bytes> frames[] = {
      {"nothing", {}},
      {"ninth vlan", nine_vlans + ipv4({})},
      {"ninth vlan, cut", ethernet(0x8100) + times(8, vlan(0x8100))},
      {"ninth label", ethernet(0x8847) + times(8, mpls(false)) + mpls(true) + ipv4({})},
      {"label behind eight vlans", ethernet(0x8100) + times(7, vlan(0x8100)) + vlan(0x8847) + mpls(true) + ipv4({})},
      {"labels without a bottom", ethernet(0x8847) + times(3, mpls(false))},
      {"v4 header length", ethernet(0x0800) + ipv4(short_header)},
      {"v4 total length", ethernet(0x0800) + ipv4(length_below_header)},
      {"v4 type, version 6", ethernet(0x0800) + ipv4(version6)},
      {"v6 type, version 4", ethernet(0x86dd) + ipv4({}) + Bytes(40)},
      {"pppoe v4, version 6", ethernet(0x8864) + pppoe(0x0021) + ipv4(version6)},
  };
  for (const auto& [name, frame] : frames) {
    INFO(name);
    CHECK(parse(frame).outcome == Outcome::malformed);
  }
}

TEST_CASE("a chain that is cut or too long leaves the header not walked") {
  V6 too_long;
  too_long.next = 60;
  too_long.payload = times(15, extension(60)) + extension(43) + extension(kUdp) + udp_payload();
  V6 cut;
  cut.next = 0;
  cut.payload = extension(43) + extension(kUdp, 200);
  V6 ends_at_ip_length;
  ends_at_ip_length.next = 0;
  ends_at_ip_length.payload = extension(135) + extension(kUdp) + udp_payload();
  ends_at_ip_length.payload_length = 12;
  V6 cut_fragment;
  cut_fragment.next = 44;
  cut_fragment.payload = Bytes(7);
  V6 nothing_behind;
  nothing_behind.next = 51;
  nothing_behind.payload = {};
  const std::pair<V6, uint8_t> chains[] = {
      {too_long, 43}, {cut, 43}, {ends_at_ip_length, 135}, {cut_fragment, 44}, {nothing_behind, 51}};
  for (const auto& [packet, protocol] : chains) {
    Bytes frame = ethernet(0x86dd) + ipv6(packet);
    if (packet.payload.size() > 1000) frame.resize(frame.size() - 8);
    const Parsed parsed = parse(frame);
    REQUIRE(parsed.outcome == Outcome::ip);
    CHECK(has(parsed.headers, WEIR_INCOMPLETE));
    CHECK_FALSE(has(parsed.headers, WEIR_HAS_PORTS));
    CHECK(int{parsed.headers.protocol} == int{protocol});
    CHECK_FALSE(decided(parsed.outcome, parsed.headers));
  }
}

TEST_CASE("what lies behind the packet's end, or in a later fragment, is no field") {
  constexpr uint8_t kHasIcmp = WEIR_HAS_ICMP_TYPE | WEIR_HAS_ICMP_CODE;
  struct {
    const char* name;
    Bytes frame;
    uint8_t has;
  } const cases[] = {
      {"tcp flags in the padding", ethernet(0x0800) + ipv4({kTcp, tcp(2), 1, 2, 0, 20 + 13}), WEIR_HAS_PORTS},
      {"tcp flags are the last byte", ethernet(0x0800) + ipv4({kTcp, tcp(2), 1, 2, 0, 20 + 14}),
       WEIR_HAS_PORTS | WEIR_HAS_TCP_FLAGS},
      {"icmp code in the padding", ethernet(0x0800) + ipv4({kIcmp, icmp(8, 0), 1, 2, 0, 20 + 1}), WEIR_HAS_ICMP_TYPE},
      {"icmp type in the padding", ethernet(0x0800) + ipv4({kIcmp, icmp(8, 0), 1, 2, 0, 20}), 0},
      {"icmp code is the last byte", ethernet(0x0800) + ipv4({kIcmp, icmp(8, 0), 1, 2, 0, 20 + 2}), kHasIcmp},
      {"later fragment, tcp", ethernet(0x0800) + ipv4({kTcp, tcp(2), 1, 2, 0, -1, 1}), 0},
      {"later fragment, icmp", ethernet(0x0800) + ipv4({kIcmp, icmp(8, 0), 1, 2, 0, -1, 1}), 0},
      {"first fragment, icmp", ethernet(0x0800) + ipv4({kIcmp, icmp(8, 0), 1, 2, 0, -1, 0x2000}), kHasIcmp},
      {"v6 later fragment, icmp6", ethernet(0x86dd) + ipv6({44, fragment(kIcmp6, 8) + icmp(128, 0)}), 0},
      {"v6 icmp6 behind an extension", ethernet(0x86dd) + ipv6({60, extension(kIcmp6) + icmp(128, 0)}), kHasIcmp},
      {"v6 icmp6 code in the padding", ethernet(0x86dd) + ipv6({kIcmp6, icmp(128, 0), 1, 2, 1}), WEIR_HAS_ICMP_TYPE},
      {"v6 incomplete chain", ethernet(0x86dd) + ipv6({60, Bytes{kIcmp6}}), WEIR_INCOMPLETE},
  };
  for (const auto& row : cases) {
    INFO(row.name);
    const Parsed parsed = parse(row.frame);
    REQUIRE(parsed.outcome == Outcome::ip);
    CHECK(int{parsed.headers.has} == int{row.has});
  }
}
