#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

// Frames written out byte by byte, for tests. Addresses and ports are fixed unless a test names others.
namespace weir::test {

using Bytes = std::vector<uint8_t>;

inline Bytes operator+(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
inline Bytes be16(unsigned value) {
  return {static_cast<uint8_t>(value >> 8), static_cast<uint8_t>(value)};
}

inline Bytes ethernet(unsigned type) {
  return Bytes{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2} + be16(type);
}
inline Bytes vlan(unsigned next_type) {
  return Bytes{0x20, 0x05} + be16(next_type);
}
inline Bytes mpls(bool bottom) {
  return {0x00, 0x01, static_cast<uint8_t>(0x20 | bottom), 64};
}
inline Bytes pppoe(unsigned ppp_protocol, uint8_t version_type = 0x11, uint8_t code = 0) {
  return Bytes{version_type, code, 0, 7, 0, 99} + be16(ppp_protocol);
}

constexpr uint8_t kTcp = 6, kUdp = 17, kIcmp = 1, kIcmp6 = 58, kIpip = 4, kSixInFour = 41, kGre = 47;

struct V4 {
  uint8_t protocol = kUdp;
  Bytes payload = Bytes{0x04, 0x57, 0x01, 0xbb, 0, 8, 0, 0};  // ports 1111 -> 443
  uint32_t source = 0x0a010203;                               // 10.1.2.3
  uint32_t destination = 0xc6336407;                          // 198.51.100.7
  unsigned option_words = 0;
  int total_length = -1;    // -1: right
  unsigned fragment = 0;    // flags and offset field
  uint8_t version_ihl = 0;  // 0: right
};

inline Bytes ipv4(const V4& v) {
  const unsigned header_bytes = 20 + v.option_words * 4;
  const unsigned total = v.total_length >= 0 ? static_cast<unsigned>(v.total_length)
                                             : header_bytes + static_cast<unsigned>(v.payload.size());
  Bytes header = {v.version_ihl != 0 ? v.version_ihl : static_cast<uint8_t>(0x40 | header_bytes / 4), 0};
  header = header + be16(total) + Bytes{0, 1} + be16(v.fragment) + Bytes{64, v.protocol, 0, 0};
  header = header + be16(v.source >> 16) + be16(v.source) + be16(v.destination >> 16) + be16(v.destination);
  header.resize(header_bytes, 1);
  uint32_t sum = 0;
  for (size_t i = 0; i < header.size(); i += 2) sum += static_cast<uint32_t>(header[i] << 8 | header[i + 1]);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  header[10] = static_cast<uint8_t>(~sum >> 8);
  header[11] = static_cast<uint8_t>(~sum);
  return header + v.payload;
}

struct V6 {
  uint8_t next = kUdp;
  Bytes payload = Bytes{0x04, 0x57, 0x01, 0xbb, 0, 8, 0, 0};
  uint8_t source_last = 1;       // 2001:db8::1
  uint8_t destination_last = 2;  // 2001:db8::2
  int payload_length = -1;       // -1: right
};

inline Bytes ipv6(const V6& v) {
  const unsigned length =
      v.payload_length >= 0 ? static_cast<unsigned>(v.payload_length) : static_cast<unsigned>(v.payload.size());
  Bytes header = Bytes{0x60, 0, 0, 0} + be16(length) + Bytes{v.next, 64};
  for (const uint8_t last : {v.source_last, v.destination_last}) {
    header = header + Bytes{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
  }
  return header + v.payload;
}

inline Bytes udp_payload() {
  return V6{}.payload;
}
// Extension header of 8 + 8 * more bytes (hop-by-hop, routing, destination options, mobility, HIP, shim6).
inline Bytes extension(uint8_t next, uint8_t more = 0) {
  Bytes header(8u + 8u * more, 0);
  header[0] = next;
  header[1] = more;
  return header;
}
inline Bytes fragment(uint8_t next, unsigned offset_and_flag) {
  return Bytes{next, 0xff} + be16(offset_and_flag) + Bytes{0, 0, 0, 9};
}
inline Bytes authentication(uint8_t next, uint8_t words_minus_2) {
  Bytes header((words_minus_2 + 2u) * 4, 0);
  header[0] = next;
  header[1] = words_minus_2;
  return header;
}

// Ports 1111 -> 443.
inline Bytes tcp(uint8_t flags) {
  return {0x04, 0x57, 0x01, 0xbb, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, flags, 0xff, 0xff, 0, 0, 0, 0};
}
inline Bytes icmp(uint8_t type, uint8_t code) {
  return {type, code, 0, 0, 0, 1, 0, 2};
}
inline Bytes udp(unsigned source, unsigned destination, const Bytes& payload) {
  return be16(source) + be16(destination) + be16(8 + static_cast<unsigned>(payload.size())) + Bytes{0, 0} + payload;
}
// flags: C 0x80, R 0x40, K 0x20, S 0x10; each but R brings four bytes.
inline Bytes gre(unsigned type, uint8_t flags = 0, uint8_t version = 0) {
  Bytes header = Bytes{flags, version} + be16(type);
  for (const uint8_t flag : std::initializer_list<uint8_t>{0x80, 0x20, 0x10}) {
    if ((flags & flag) != 0) header.resize(header.size() + 4, 0xee);
  }
  return header;
}
inline Bytes vxlan(uint8_t flags = 0x08) {
  return {flags, 0, 0, 0, 0, 0, 42, 0};
}
inline Bytes geneve(unsigned type, uint8_t option_words = 0, uint8_t version = 0) {
  Bytes header = Bytes{static_cast<uint8_t>(version << 6 | option_words), 0} + be16(type) + Bytes{0, 0, 42, 0};
  header.resize(8 + option_words * 4u, 0xee);
  return header;
}
// flags: E 4, S 2, PN 1. extension_words: of each extension header; they need E.
inline Bytes gtpu(uint8_t flags = 0, const Bytes& extension_words = {}, uint8_t version_and_type = 0x30,
                  uint8_t message = 255) {
  Bytes header = {static_cast<uint8_t>(version_and_type | flags), message, 0, 0, 0, 0, 0, 7};
  if ((flags & 7) == 0) return header;
  header = header + Bytes{0, 1, 0, static_cast<uint8_t>(extension_words.empty() ? 0 : 0x85)};
  for (size_t i = 0; i < extension_words.size(); i++) {
    Bytes extension(extension_words[i] == 0 ? 1 : extension_words[i] * size_t{4}, 0xee);
    extension.front() = extension_words[i];
    extension.back() = i + 1 == extension_words.size() ? 0 : 0x85;
    header = header + extension;
  }
  return header;
}
inline Bytes teredo_authentication(uint8_t identifier_bytes, uint8_t value_bytes) {
  Bytes header = {0, 1, identifier_bytes, value_bytes};
  header.resize(4u + identifier_bytes + value_bytes + 9, 0xee);
  return header;
}
inline Bytes teredo_origin() {
  return {0, 0, 0x12, 0x34, 10, 0, 0, 1};
}

// In IPv4, or IPv6: what is inside is its payload.
inline Bytes v4_around(uint8_t protocol, const Bytes& inside) {
  V4 packet;
  packet.protocol = protocol;
  packet.payload = inside;
  return ipv4(packet);
}
inline Bytes v6_around(uint8_t next, const Bytes& inside) {
  V6 packet;
  packet.next = next;
  packet.payload = inside;
  return ipv6(packet);
}

inline Bytes times(unsigned n, const Bytes& part) {
  Bytes all;
  for (unsigned i = 0; i < n; i++) all = all + part;
  return all;
}

}  // namespace weir::test
