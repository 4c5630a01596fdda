#include <cstring>
#include <memory>
#include <string>

#include "filter/frame/tunnel.h"
#include "tests/catch.h"
#include "tests/reference/frames.h"
#include "tests/unit/filter/frame/random_frames.h"

using namespace weir;
using namespace weir::filter;
using namespace weir::test;

namespace {

constexpr uint8_t kAll = WEIR_TUNNELS;

struct Parsed {
  Outcome outcome;
  std::vector<Headers> layers;
  bool decided;
};

// On a heap buffer of exactly this size, so that AddressSanitizer sees a read past the end.
Parsed parse(const Bytes& frame, size_t length, uint8_t tunnels) {
  std::unique_ptr<uint8_t[]> exact(new uint8_t[length]);
  std::copy_n(frame.begin(), length, exact.get());
  Headers outer = {};
  InnerLayers inner = {};
  Parsed parsed;
  parsed.outcome = parse_layers(exact.get(), static_cast<uint32_t>(length), tunnels, outer, inner);
  parsed.decided = decided(parsed.outcome, outer, inner, tunnels);
  if (parsed.outcome == Outcome::ip) {
    parsed.layers.push_back(outer);
    parsed.layers.insert(parsed.layers.end(), inner.layer, inner.layer + inner.n);
  } else {
    REQUIRE(inner.n == 0);
  }
  return parsed;
}

Ipv6 address_of(const Headers& headers, Side side) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(headers.address[side]);
  return headers.family == 4 ? Ipv6{ipv4_from_bytes(bytes)} : ipv6_from_bytes(bytes);
}

bool same(const Headers& ours, const reference::PacketKeys& theirs) {
  if (ours.length != theirs.length || ours.dscp != theirs.dscp) return false;
  if (ours.fragment != static_cast<uint8_t>(theirs.fragment)) return false;
  return ours.family == theirs.family && ours.protocol == theirs.protocol && address_of(ours, kSource) == theirs.src &&
         address_of(ours, kDestination) == theirs.dst && has(ours, WEIR_HAS_PORTS) == theirs.has_ports &&
         has(ours, WEIR_HAS_ICMP_TYPE) == theirs.has_icmp_type &&
         has(ours, WEIR_HAS_ICMP_CODE) == theirs.has_icmp_code &&
         has(ours, WEIR_HAS_TCP_FLAGS) == theirs.has_tcp_flags &&
         (!theirs.has_ports || (__builtin_bswap16(ours.port[kSource]) == theirs.sport &&
                                __builtin_bswap16(ours.port[kDestination]) == theirs.dport)) &&
         (!theirs.has_icmp_type || ours.icmp_type == theirs.icmp_type) &&
         (!theirs.has_icmp_code || ours.icmp_code == theirs.icmp_code) &&
         (!theirs.has_tcp_flags || ours.tcp_flags == theirs.tcp_flags);
}

// What the reference parser says of the frame's beginning.
void require_as_reference(const Parsed& parsed, const Bytes& frame, size_t length, uint8_t tunnels) {
  const reference::Frame expected = reference::parse_frame(std::span(frame).first(length), tunnels);
  const Outcome outcome = expected.kind == reference::FrameKind::ip          ? Outcome::ip
                          : expected.kind == reference::FrameKind::malformed ? Outcome::malformed
                                                                             : Outcome::not_ip;
  REQUIRE(parsed.outcome == outcome);
  REQUIRE(parsed.layers.size() == expected.layers.size());
  bool incomplete = false;
  for (size_t layer = 0; layer < parsed.layers.size(); layer++) {
    INFO("layer " << layer);
    REQUIRE(same(parsed.layers[layer], expected.layers[layer]));
    incomplete |= has(parsed.layers[layer], WEIR_INCOMPLETE);
  }
  REQUIRE(incomplete == expected.incomplete);
}

bool equal(const Parsed& a, const Parsed& b) {
  if (a.outcome != b.outcome || a.layers.size() != b.layers.size()) return false;
  for (size_t i = 0; i < a.layers.size(); i++) {
    const Headers &x = a.layers[i], &y = b.layers[i];
    if (x.length != y.length || x.dscp != y.dscp || x.fragment != y.fragment) return false;
    if (x.family != y.family || x.has != y.has || x.protocol != y.protocol) return false;
    if (address_of(x, kSource) != address_of(y, kSource)) return false;
    if (address_of(x, kDestination) != address_of(y, kDestination)) return false;
    if (has(x, WEIR_HAS_PORTS) && memcmp(x.port, y.port, sizeof x.port) != 0) return false;
    if (has(x, WEIR_HAS_ICMP_TYPE) && x.icmp_type != y.icmp_type) return false;
    if (has(x, WEIR_HAS_ICMP_CODE) && x.icmp_code != y.icmp_code) return false;
    if (has(x, WEIR_HAS_TCP_FLAGS) && x.tcp_flags != y.tcp_flags) return false;
  }
  return true;
}

// The inner packets of the rows: distinct from the outer ones.
Bytes inner4() {
  return ipv4({kUdp, udp(5555, 53, {1, 2, 3}), 0xc0a80001, 0xc0a80002});
}
Bytes inner6() {
  return ipv6({kTcp, tcp(0x02), 0x77, 0x78});
}

// Each tunnel around an inner packet, which is the frame's end.
struct Row {
  std::string name;
  uint8_t tunnel;
  Bytes frame;
  Bytes inner;
};

std::vector<Row> rows() {
  const Bytes eth4 = ethernet(0x0800), eth6 = ethernet(0x86dd);
  const Bytes in4 = inner4(), in6 = inner6();
  std::vector<Row> rows = {
      {"ipip in v4", WEIR_TUNNEL_IPIP, eth4 + v4_around(kIpip, in4), in4},
      {"ipip in v6", WEIR_TUNNEL_IPIP, eth6 + v6_around(kIpip, in4), in4},
      {"ipip behind an extension", WEIR_TUNNEL_IPIP, eth6 + v6_around(60, extension(kIpip, 3) + in4), in4},
      {"ipip behind v4 options and a tag", WEIR_TUNNEL_IPIP,
       ethernet(0x8100) + vlan(0x0800) + ipv4({kIpip, in4, 1, 2, 10}), in4},
      {"ipip in a first fragment", WEIR_TUNNEL_IPIP, eth4 + ipv4({kIpip, in4, 1, 2, 0, -1, 0x2000}), in4},
      {"ipip, total length 0", WEIR_TUNNEL_IPIP, eth4 + ipv4({kIpip, in4, 1, 2, 0, 0}), in4},
      {"6in4", WEIR_TUNNEL_6IN4, eth4 + v4_around(kSixInFour, in6), in6},
      {"6 in 6", WEIR_TUNNEL_6IN4, eth6 + v6_around(kSixInFour, in6), in6},
  };
  for (const uint8_t flags : std::initializer_list<uint8_t>{0x00, 0x80, 0x20, 0x10, 0xb0, 0x0f}) {
    const std::string name = "gre with flags " + std::to_string(flags);
    rows.push_back({name, WEIR_TUNNEL_GRE, eth4 + v4_around(kGre, gre(0x0800, flags) + in4), in4});
    rows.push_back({name + " in v6", WEIR_TUNNEL_GRE, eth6 + v6_around(kGre, gre(0x86dd, flags) + in6), in6});
  }
  const auto add_gre = [&](const char* name, const Bytes& inside, const Bytes& inner) {
    rows.push_back({name, WEIR_TUNNEL_GRE, eth4 + v4_around(kGre, inside + inner), inner});
  };
  add_gre("ethernet in gre", gre(0x6558) + ethernet(0x0800), in4);
  add_gre("tags in ethernet in gre", gre(0x6558) + ethernet(0x88a8) + vlan(0x8100) + vlan(0x86dd), in6);
  add_gre("mpls in gre", gre(0x8847) + mpls(true), in4);
  add_gre("multicast mpls in gre", gre(0x8848, 0x20) + times(7, mpls(false)) + mpls(true), in6);

  const auto add_udp = [&](std::string name, uint8_t tunnel, unsigned source, unsigned destination, const Bytes& inside,
                           const Bytes& inner) {
    const Bytes segment = udp(source, destination, inside + inner);
    rows.push_back({name + " in v4", tunnel, eth4 + v4_around(kUdp, segment), inner});
    rows.push_back({name + " in v6", tunnel, eth6 + v6_around(0, extension(kUdp) + segment), inner});
  };
  add_udp("vxlan", WEIR_TUNNEL_VXLAN, 40000, 4789, vxlan() + ethernet(0x0800), in4);
  add_udp("vxlan, every flag", WEIR_TUNNEL_VXLAN, 40000, 4789, vxlan(0xff) + ethernet(0x86dd), in6);
  add_udp("vlan in vxlan", WEIR_TUNNEL_VXLAN, 40000, 4789, vxlan() + ethernet(0x8100) + vlan(0x0800), in4);
  add_udp("pppoe in vxlan", WEIR_TUNNEL_VXLAN, 40000, 4789, vxlan() + ethernet(0x8864) + pppoe(0x0021), in4);
  add_udp("geneve", WEIR_TUNNEL_GENEVE, 40000, 6081, geneve(0x6558) + ethernet(0x0800), in4);
  add_udp("geneve v4", WEIR_TUNNEL_GENEVE, 40000, 6081, geneve(0x0800, 1), in4);
  add_udp("geneve v6, all options", WEIR_TUNNEL_GENEVE, 40000, 6081, geneve(0x86dd, 63), in6);
  add_udp("gtpu", WEIR_TUNNEL_GTPU, 2152, 2152, gtpu(), in4);
  add_udp("gtpu answer", WEIR_TUNNEL_GTPU, 2152, 40000, gtpu(), in6);
  for (uint8_t flags = 1; flags < 8; flags++) {
    add_udp("gtpu with flags " + std::to_string(flags), WEIR_TUNNEL_GTPU, 40000, 2152, gtpu(flags), in4);
  }
  add_udp("gtpu, extensions", WEIR_TUNNEL_GTPU, 40000, 2152, gtpu(4, {1, 2, 255}), in6);
  add_udp("gtpu, sixteen extensions", WEIR_TUNNEL_GTPU, 40000, 2152, gtpu(4, Bytes(16, 1)), in4);
  add_udp("teredo", WEIR_TUNNEL_TEREDO, 40000, 3544, {}, in6);
  add_udp("teredo answer", WEIR_TUNNEL_TEREDO, 3544, 40000, {}, in6);
  add_udp("teredo, authentication", WEIR_TUNNEL_TEREDO, 40000, 3544, teredo_authentication(3, 200), in6);
  add_udp("teredo, origin", WEIR_TUNNEL_TEREDO, 3544, 40000, teredo_origin(), in6);
  add_udp("teredo, both", WEIR_TUNNEL_TEREDO, 3544, 40000, teredo_authentication(0, 0) + teredo_origin(), in6);
  return rows;
}

Bytes udp_in_v4(unsigned source, unsigned destination, const Bytes& inside) {
  return ethernet(0x0800) + v4_around(kUdp, udp(source, destination, inside));
}

}  // namespace

TEST_CASE("every tunnel, whole and cut at every byte") {
  for (const Row& row : rows()) {
    const size_t inner_at = row.frame.size() - row.inner.size();
    const bool is_v4 = row.inner[0] >> 4 == 4;
    const size_t trusted_from = inner_at + (is_v4 ? 20 : 40);
    for (size_t length = 0; length <= row.frame.size(); length++) {
      INFO(row.name << ", " << length << " of " << row.frame.size() << " bytes");
      const Parsed parsed = parse(row.frame, length, row.tunnel);
      REQUIRE((parsed.layers.size() == 2) == (length >= trusted_from));
      REQUIRE(equal(parsed, parse(row.frame, length, kAll)));
      REQUIRE(parse(row.frame, length, static_cast<uint8_t>(kAll & ~row.tunnel)).layers.size() < 2);
      require_as_reference(parsed, row.frame, length, row.tunnel);
      if (parsed.layers.size() < 2) continue;
      const Headers& inner = parsed.layers[1];
      CHECK(inner.family == (is_v4 ? 4 : 6));
      CHECK(memcmp(inner.address[kSource], row.inner.data() + (is_v4 ? 12 : 8), is_v4 ? 4 : 16) == 0);
      CHECK(has(inner, WEIR_HAS_PORTS) == (length >= trusted_from + 4));
      CHECK(has(inner, WEIR_HAS_TCP_FLAGS) == (!is_v4 && length >= trusted_from + 14));
    }
  }
}

TEST_CASE("what ends the nesting") {
  const Bytes in4 = inner4(), in6 = inner6();
  V4 untrusted;
  untrusted.version_ihl = 0x44;
  Bytes wrong_checksum = inner4();
  wrong_checksum[10] ^= 1;
  V6 cut_chain;
  cut_chain.next = 0;
  cut_chain.payload = Bytes{kIpip, 200, 0, 0, 0, 0, 0, 0} + in4;
  const auto gre_around = [](const Bytes& header, const Bytes& inside) {
    return ethernet(0x0800) + v4_around(kGre, header + inside);
  };
  const auto fragment_of = [](uint8_t protocol, const Bytes& inside) {
    return ethernet(0x0800) + ipv4({protocol, inside, 1, 2, 0, -1, 1});
  };
  const std::pair<const char*, Bytes> frames[] = {
      {"v6 in ipip", ethernet(0x0800) + v4_around(kIpip, in6)},
      {"v4 in 6in4", ethernet(0x0800) + v4_around(kSixInFour, in4)},
      {"an untrusted header", ethernet(0x0800) + v4_around(kIpip, ipv4(untrusted))},
      {"nothing", ethernet(0x0800) + v4_around(kIpip, {})},
      {"gre with routing", gre_around(gre(0x0800, 0x40), in4)},
      {"gre version 1", gre_around(gre(0x0800, 0, 1), in4)},
      {"gre version 4", gre_around(gre(0x0800, 0, 4), in4)},
      {"gre of an unknown type", gre_around(gre(0x0806), in4)},
      {"gre, v4 type, v6 packet", gre_around(gre(0x0800), in6)},
      {"arp in gre", gre_around(gre(0x6558) + ethernet(0x0806), Bytes(28))},
      {"malformed ethernet in gre", gre_around(gre(0x6558) + ethernet(0x8100) + times(9, vlan(0x8100)), in4)},
      {"ninth label in gre", gre_around(gre(0x8847) + times(8, mpls(false)) + mpls(true), in4)},
      {"wrong checksum behind mpls in gre", gre_around(gre(0x8847) + mpls(true), wrong_checksum)},
      {"vxlan without the I flag", udp_in_v4(1, 4789, vxlan(0xf7) + ethernet(0x0800) + in4)},
      {"vxlan port as source", udp_in_v4(4789, 1, vxlan() + ethernet(0x0800) + in4)},
      {"geneve version 1", udp_in_v4(1, 6081, geneve(0x0800, 0, 1) + in4)},
      {"geneve of an unknown type", udp_in_v4(1, 6081, geneve(0x8847) + mpls(true) + in4)},
      {"geneve port as source", udp_in_v4(6081, 1, geneve(0x0800) + in4)},
      {"gtp version 0", udp_in_v4(1, 2152, gtpu(0, {}, 0x10) + in4)},
      {"gtp version 2", udp_in_v4(1, 2152, gtpu(0, {}, 0x50) + in4)},
      {"gtp prime", udp_in_v4(1, 2152, gtpu(0, {}, 0x20) + in4)},
      {"gtp echo", udp_in_v4(1, 2152, gtpu(0, {}, 0x30, 1) + in4)},
      {"gtpu, seventeen extensions", udp_in_v4(1, 2152, gtpu(4, Bytes(17, 1)) + in4)},
      {"gtpu, extension without length", udp_in_v4(1, 2152, gtpu(4, {1, 0}) + in4)},
      {"gtpu, neither family", udp_in_v4(1, 2152, gtpu() + Bytes(60, 0x55))},
      {"gtpu, nothing", udp_in_v4(1, 2152, gtpu())},
      {"teredo with v4", udp_in_v4(1, 3544, in4)},
      {"teredo, origin before authentication", udp_in_v4(1, 3544, teredo_origin() + teredo_authentication(0, 0) + in6)},
      {"teredo, two origins", udp_in_v4(1, 3544, teredo_origin() + teredo_origin() + in6)},
      {"tcp with a tunnel's port", ethernet(0x0800) + v4_around(kTcp, be16(1) + be16(3544) + Bytes(4) + in6)},
      {"later fragment, ipip", fragment_of(kIpip, in4)},
      {"later fragment, gre", fragment_of(kGre, gre(0x0800) + in4)},
      {"later fragment, teredo", fragment_of(kUdp, udp(1, 3544, in6))},
      {"v6 later fragment", ethernet(0x86dd) + ipv6({44, fragment(kIpip, 8) + in4})},
      {"incomplete chain", ethernet(0x86dd) + ipv6(cut_chain)},
      {"inner header behind the outer packet's end", ethernet(0x0800) + ipv4({kIpip, in4, 1, 2, 0, 20 + 19})},
      {"no room for the UDP header", ethernet(0x0800) + ipv4({kUdp, udp(1, 3544, in6), 1, 2, 0, 20 + 7})},
      {"esp", ethernet(0x0800) + v4_around(50, in4)},
  };
  for (const auto& [name, frame] : frames) {
    INFO(name);
    const Parsed parsed = parse(frame, frame.size(), kAll);
    CHECK(parsed.layers.size() == 1);
    require_as_reference(parsed, frame, frame.size(), kAll);
  }
}

TEST_CASE("an inner packet ends where the outer one does") {
  for (int length = 20; length <= 20 + 28; length++) {
    INFO(length);
    const Bytes frame = ethernet(0x0800) + ipv4({kIpip, ipv4({kTcp, tcp(2), 3, 4, 0, 0}), 1, 2, 0, 20 + length});
    const Parsed parsed = parse(frame, frame.size(), kAll);
    REQUIRE(parsed.layers.size() == 2);
    CHECK(has(parsed.layers[1], WEIR_HAS_PORTS) == (length >= 24));
    CHECK(has(parsed.layers[1], WEIR_HAS_TCP_FLAGS) == (length >= 34));
  }
}

TEST_CASE("four layers at most, outer first, of any kinds") {
  Bytes packet = ipv4({kIpip, inner4(), 0x0a000004, 1});
  for (const uint32_t source : {0x0a000003u, 0x0a000002u, 0x0a000001u}) packet = ipv4({kIpip, packet, source, 1});
  const Bytes five = ethernet(0x0800) + packet;
  const Parsed nested = parse(five, five.size(), kAll);
  REQUIRE(nested.layers.size() == 4);
  for (size_t layer = 0; layer < 4; layer++) CHECK(address_of(nested.layers[layer], kSource) == 0x0a000001 + layer);
  CHECK(nested.decided);
  require_as_reference(nested, five, five.size(), kAll);

  const Bytes gtp = v4_around(kUdp, udp(2152, 2152, gtpu(2) + inner6()));
  const Bytes in_gre = v6_around(kGre, gre(0x6558, 0x80) + ethernet(0x0800) + gtp);
  const Bytes mixed = udp_in_v4(9, 4789, vxlan() + ethernet(0x8100) + vlan(0x86dd) + in_gre);
  for (size_t length = 0; length <= mixed.size(); length++) {
    require_as_reference(parse(mixed, length, kAll), mixed, length, kAll);
  }
  CHECK(parse(mixed, mixed.size(), kAll).layers.size() == 4);
  CHECK(parse(mixed, mixed.size(), kAll & ~WEIR_TUNNEL_GTPU).layers.size() == 3);
  CHECK(parse(mixed, mixed.size(), kAll & ~WEIR_TUNNEL_GRE).layers.size() == 2);
}

TEST_CASE("ports of two tunnels: the first in the order of the policy's names that is looked into") {
  const Bytes teredo = udp_in_v4(3544, 4789, inner6());
  CHECK(parse(teredo, teredo.size(), WEIR_TUNNEL_TEREDO).layers.size() == 2);
  CHECK(parse(teredo, teredo.size(), kAll).layers.size() == 1);
  const Bytes vxlan_frame = udp_in_v4(3544, 4789, vxlan() + ethernet(0x86dd) + inner6());
  CHECK(parse(vxlan_frame, vxlan_frame.size(), kAll).layers.size() == 2);
  const Bytes gtp = udp_in_v4(3544, 2152, gtpu() + inner6());
  CHECK(parse(gtp, gtp.size(), kAll).layers.size() == 2);
}

TEST_CASE("random and changed frames: as the reference parser") {
  Random random(20261121);
  size_t layers[WEIR_MAX_LAYERS + 1] = {};
  for (int i = 0; i < 60000; i++) {
    const Bytes frame = random_frame(random);
    INFO("frame " << i);
    for (const uint8_t tunnels : {uint8_t{0}, kAll, static_cast<uint8_t>(random.byte() & kAll)}) {
      const Parsed parsed = parse(frame, frame.size(), tunnels);
      require_as_reference(parsed, frame, frame.size(), tunnels);
      if (tunnels == kAll) layers[parsed.layers.size()]++;
      if (tunnels != 0) continue;
      Headers headers = {};
      Parsed alone = {parse_frame(frame.data(), static_cast<uint32_t>(frame.size()), headers), {}, false};
      if (alone.outcome == Outcome::ip) alone.layers.push_back(headers);
      REQUIRE(equal(alone, parsed));
    }
  }
  for (const size_t frames : layers) CHECK(frames > 1000);  // the frames are worth the name
}

TEST_CASE("what a frame's beginning decides, the rest of it does not change") {
  Random random(7);
  size_t decided_early = 0;
  for (int i = 0; i < 3000; i++) {
    const Bytes frame = random_frame(random);
    const uint8_t tunnels = random.one_in(3) ? static_cast<uint8_t>(random.byte() & kAll) : kAll;
    const Parsed whole = parse(frame, frame.size(), tunnels);
    for (size_t length = 0; length < frame.size(); length += 1 + random.below(3)) {
      const Parsed beginning = parse(frame, length, tunnels);
      if (!beginning.decided) continue;
      decided_early++;
      INFO("frame " << i << ", " << length << " of " << frame.size() << " bytes");
      REQUIRE(equal(beginning, whole));
    }
  }
  CHECK(decided_early > 1000);
}
