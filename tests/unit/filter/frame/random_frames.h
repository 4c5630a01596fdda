#pragma once

#include <random>
#include <utility>

#include "tests/unit/filter/frame/frames.h"

// Frames with tunnels in each other, some of them wrong. Some addresses are 10.0.0.0 to 10.0.0.7, and 2001:db8::9.
namespace weir::test {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  unsigned below(unsigned n) { return static_cast<unsigned>(engine_() % n); }
  bool one_in(unsigned n) { return below(n) == 0; }
  uint8_t byte() { return static_cast<uint8_t>(below(256)); }
  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<unsigned>(values.size()))];
  }
  Bytes bytes(unsigned most) {
    Bytes all(below(most + 1));
    for (uint8_t& byte_of : all) byte_of = byte();
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

inline Bytes random_ip(Random& random, unsigned depth, uint8_t family);

inline Bytes random_tags(Random& random, unsigned type) {
  Bytes frame = ethernet(type);
  for (unsigned tags = random.one_in(3) ? random.below(10) : 0; tags > 0; tags--) {
    frame[frame.size() - 2] = 0x81;
    frame[frame.size() - 1] = 0x00;
    frame = frame + vlan(type);
  }
  return frame;
}

inline Bytes random_ethernet(Random& random, unsigned depth) {
  const uint8_t family = random.one_in(3) ? 6 : 4;
  const Bytes packet = random_ip(random, depth, family);
  switch (random.below(6)) {
    case 0:
      return random_tags(random, 0x8847) + times(random.below(9), mpls(false)) + mpls(true) + packet;
    case 1:
      return random_tags(random, 0x8864) + pppoe(family == 4 ? 0x21 : 0x57) + packet;
    default:
      return random_tags(random, family == 4 ? 0x0800 : 0x86dd) + packet;
  }
}

// Protocol, and what it carries.
inline std::pair<uint8_t, Bytes> random_payload(Random& random, unsigned depth) {
  const uint8_t family = random.one_in(2) ? 6 : 4;
  const unsigned type = family == 4 ? 0x0800 : 0x86dd;
  if (depth == 0 || random.one_in(5)) {
    return {random.of<uint8_t>({1, 58, 6, 6, 17, 17, 33, 132, 136, 4, 41, 47, 50, 59, 255}), random.bytes(30)};
  }
  switch (random.below(7)) {
    case 0:
      return {kIpip, random_ip(random, depth - 1, random.one_in(10) ? 6 : 4)};
    case 1:
      return {kSixInFour, random_ip(random, depth - 1, random.one_in(10) ? 4 : 6)};
    case 2: {
      const uint8_t flags = random.of<uint8_t>({0, 0, 0x80, 0x20, 0x10, 0xb0, 0xa0, 0x40, 0x0f});
      const uint8_t version = random.one_in(10) ? random.byte() : 0;
      if (random.one_in(3)) return {kGre, gre(0x6558, flags, version) + random_ethernet(random, depth - 1)};
      const Bytes packet = random_ip(random, depth - 1, family);
      if (random.one_in(3))
        return {kGre, gre(0x8847, flags, version) + times(random.below(9), mpls(false)) + mpls(true) + packet};
      return {kGre, gre(type, flags, version) + packet};
    }
    case 3:
      return {kUdp, udp(random.below(65536), 4789,
                        vxlan(random.one_in(8) ? random.byte() : 8) + random_ethernet(random, depth - 1))};
    case 4: {
      const auto options = static_cast<uint8_t>(random.one_in(2) ? random.below(64) : 0);
      const Bytes inside = random.one_in(2) ? geneve(0x6558, options) + random_ethernet(random, depth - 1)
                                            : geneve(type, options) + random_ip(random, depth - 1, family);
      return {kUdp, udp(random.below(65536), 6081, inside)};
    }
    case 5: {
      Bytes extensions(random.one_in(2) ? random.below(18) : 0);
      for (uint8_t& words : extensions) words = static_cast<uint8_t>(random.one_in(30) ? random.below(256) : 1);
      const auto flags = static_cast<uint8_t>(extensions.empty() ? random.below(8) : 4 | random.below(4));
      const Bytes inside = gtpu(flags, extensions) + random_ip(random, depth - 1, family);
      return {kUdp, random.one_in(2) ? udp(2152, random.below(65536), inside) : udp(random.below(65536), 2152, inside)};
    }
    default: {
      Bytes inside;
      if (random.one_in(3)) inside = inside + teredo_authentication(random.byte(), random.byte());
      if (random.one_in(3)) inside = inside + teredo_origin();
      inside = inside + random_ip(random, depth - 1, random.one_in(10) ? 4 : 6);
      return {kUdp, random.one_in(2) ? udp(3544, random.below(65536), inside) : udp(random.below(65536), 3544, inside)};
    }
  }
}

inline Bytes random_ip(Random& random, unsigned depth, uint8_t family) {
  auto [protocol, payload] = random_payload(random, depth);
  if (family == 4) {
    V4 packet;
    packet.protocol = protocol;
    packet.payload = payload;
    packet.source = random.one_in(3) ? 0x0a000000 + random.below(8) : random.below(UINT32_MAX);
    packet.destination = random.one_in(3) ? 0x0a000000 + random.below(8) : random.below(UINT32_MAX);
    if (random.one_in(4)) packet.option_words = random.below(11);
    if (random.one_in(6))
      packet.total_length = static_cast<int>(random.below(static_cast<unsigned>(payload.size()) + 70));
    if (random.one_in(10)) packet.total_length = 0;
    if (random.one_in(10)) packet.fragment = random.of<unsigned>({0x2000, 0x4000, 1, 0x2001, 0x1fff});
    return ipv4(packet);
  }
  if (random.one_in(3)) {
    for (unsigned n = random.one_in(8) ? 14 + random.below(4) : random.below(4); n > 0; n--) {
      switch (random.below(4)) {
        case 0:
          payload = fragment(protocol, random.of<unsigned>({0, 1, 6, 7, 8, 9})) + payload;
          protocol = 44;
          break;
        case 1:
          payload = authentication(protocol, static_cast<uint8_t>(random.below(8))) + payload;
          protocol = 51;
          break;
        default:
          payload = extension(protocol, static_cast<uint8_t>(random.below(4))) + payload;
          protocol = random.of<uint8_t>({0, 43, 60, 135, 139, 140});
      }
    }
  }
  V6 packet;
  packet.next = protocol;
  packet.payload = payload;
  packet.source_last = random.one_in(6) ? 9 : random.byte();
  if (random.one_in(6))
    packet.payload_length = static_cast<int>(random.below(static_cast<unsigned>(payload.size()) + 30));
  if (random.one_in(10)) packet.payload_length = 0;
  return ipv6(packet);
}

inline Bytes random_frame(Random& random) {
  Bytes frame = random_ethernet(random, random.below(6));
  if (random.one_in(4)) frame = frame + random.bytes(20);  // padding
  for (unsigned changes = random.one_in(2) ? random.below(4) : 0; changes > 0; changes--) {
    frame[random.below(static_cast<unsigned>(frame.size()))] =
        random.one_in(2) ? random.byte() : random.of<uint8_t>({0, 1, 4, 0x45, 0x60, 255});
  }
  if (random.one_in(4)) frame.resize(random.below(static_cast<unsigned>(frame.size())));
  return frame;
}

}  // namespace weir::test
