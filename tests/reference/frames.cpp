#include "tests/reference/frames.h"

#include <algorithm>
#include <optional>

namespace weir::reference {

namespace {

constexpr int kMaxTags = 8;               // VLAN tags and MPLS labels together
constexpr int kMaxExtensionHeaders = 16;  // of one IPv6 packet

// Bytes not yet read. take() gives the next ones, or nothing when fewer are left.
class Cursor {
 public:
  explicit Cursor(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  std::optional<std::span<const uint8_t>> take(size_t count) {
    if (bytes_.size() < count) return std::nullopt;
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  std::span<const uint8_t> rest() const { return bytes_; }

 private:
  std::span<const uint8_t> bytes_;
};

unsigned be16(std::span<const uint8_t> bytes, size_t at) {
  return bytes[at] * 256u + bytes[at + 1];
}

Frame of_kind(FrameKind kind) {
  Frame frame;
  frame.kind = kind;
  return frame;
}

bool has_ports(uint8_t protocol) {
  // TCP, UDP, DCCP, SCTP, UDP-Lite (IANA protocol numbers)
  return protocol == 6 || protocol == 17 || protocol == 33 || protocol == 132 || protocol == 136;
}

void read_ports(Frame& frame, Cursor payload) {
  if (!has_ports(frame.protocol)) return;
  if (const auto bytes = payload.take(4)) {
    frame.keys.has_ports = true;
    frame.keys.sport = static_cast<uint16_t>(be16(*bytes, 0));
    frame.keys.dport = static_cast<uint16_t>(be16(*bytes, 2));
  }
}

// The bytes of a packet: to the end of the frame, or to what its length field says, whichever comes first.
// length 0 (segmentation offload, jumbograms): the frame's end.
std::span<const uint8_t> packet_bytes(std::span<const uint8_t> bytes, size_t length) {
  return length == 0 ? bytes : bytes.first(std::min(length, bytes.size()));
}

// RFC 791: the one's complement sum over an intact header is 0xffff.
bool checksum_is_right(std::span<const uint8_t> header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < header.size(); i += 2) sum += be16(header, i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

// The header, options included, when it is trusted.
std::optional<std::span<const uint8_t>> trusted_v4_header(std::span<const uint8_t> bytes) {
  if (bytes.size() < 20 || bytes[0] >> 4 != 4) return std::nullopt;
  const size_t header_bytes = (bytes[0] & 15u) * 4u;
  const size_t total_length = be16(bytes, 2);
  if (header_bytes < 20 || header_bytes > bytes.size()) return std::nullopt;
  if (total_length != 0 && total_length < header_bytes) return std::nullopt;
  return bytes.first(header_bytes);
}

Frame parse_v4(std::span<const uint8_t> bytes) {
  const auto header = trusted_v4_header(bytes);
  if (!header) return of_kind(FrameKind::malformed);
  Frame frame = of_kind(FrameKind::ip);
  frame.keys.src = ipv4_from_bytes(header->data() + 12);
  frame.keys.dst = ipv4_from_bytes(header->data() + 16);
  frame.protocol = (*header)[9];
  const bool later_fragment = (be16(*header, 6) & 0x1fff) != 0;
  if (later_fragment) return frame;
  Cursor packet(packet_bytes(bytes, be16(*header, 2)));
  packet.take(header->size());
  read_ports(frame, packet);
  return frame;
}

bool is_trusted_v6_header(std::span<const uint8_t> bytes) {
  return bytes.size() >= 40 && bytes[0] >> 4 == 6;
}

// Length in bytes of the extension header that begins here; 0: the number is none that is walked; empty: cut off.
std::optional<size_t> extension_header_bytes(uint8_t number, Cursor packet) {
  switch (number) {
    case 0:    // hop-by-hop
    case 43:   // routing
    case 60:   // destination options
    case 135:  // mobility
    case 139:  // HIP
    case 140:  // shim6
      if (const auto start = packet.take(2)) return ((*start)[1] + 1u) * 8u;
      return std::nullopt;
    case 44:  // fragment
      return 8;
    case 51:  // AH, RFC 4302: length in words of 4 bytes, minus 2
      if (const auto start = packet.take(2)) return ((*start)[1] + 2u) * 4u;
      return std::nullopt;
    default:
      return 0;
  }
}

Frame parse_v6(std::span<const uint8_t> bytes) {
  if (!is_trusted_v6_header(bytes)) return of_kind(FrameKind::malformed);
  Frame frame = of_kind(FrameKind::ip);
  frame.keys.family = 6;
  frame.keys.src = ipv6_from_bytes(bytes.data() + 8);
  frame.keys.dst = ipv6_from_bytes(bytes.data() + 24);
  frame.protocol = bytes[6];
  const size_t payload_length = be16(bytes, 4);
  Cursor packet(packet_bytes(bytes, payload_length == 0 ? 0 : 40 + payload_length));
  packet.take(40);
  for (int walked = 0;; walked++) {
    const auto header_bytes = extension_header_bytes(frame.protocol, packet);
    if (header_bytes == 0u) {
      read_ports(frame, packet);
      return frame;
    }
    const auto header = header_bytes && walked < kMaxExtensionHeaders ? packet.take(*header_bytes) : std::nullopt;
    if (!header) {
      frame.incomplete = true;  // the protocol stays the number of the header that was not walked
      return frame;
    }
    const bool later_fragment = frame.protocol == 44 && be16(*header, 2) >> 3 != 0;
    frame.protocol = (*header)[0];
    if (later_fragment) return frame;
  }
}

// What follows the last label: the first nibble chooses the family; it may be a pseudowire, so nothing is malformed.
Frame parse_after_mpls(std::span<const uint8_t> bytes) {
  const auto v4_header = trusted_v4_header(bytes);
  if (v4_header && checksum_is_right(*v4_header)) return parse_v4(bytes);
  if (is_trusted_v6_header(bytes)) return parse_v6(bytes);
  return of_kind(FrameKind::not_ip);
}

Frame parse_mpls(Cursor cursor, int tags) {
  while (true) {
    const auto label = cursor.take(4);
    if (!label || ++tags > kMaxTags) return of_kind(FrameKind::malformed);
    const bool bottom_of_stack = ((*label)[2] & 1) != 0;
    if (bottom_of_stack) return parse_after_mpls(cursor.rest());
  }
}

Frame parse_pppoe(Cursor cursor) {
  const auto header = cursor.take(8);  // version/type, code, session, length, then PPP's protocol
  if (!header) return of_kind(FrameKind::malformed);
  if ((*header)[0] != 0x11 || (*header)[1] != 0) return of_kind(FrameKind::not_ip);
  switch (be16(*header, 6)) {
    case 0x0021:
      return parse_v4(cursor.rest());
    case 0x0057:
      return parse_v6(cursor.rest());
    default:
      return of_kind(FrameKind::not_ip);
  }
}

}  // namespace

Frame parse_frame(std::span<const uint8_t> bytes) {
  Cursor cursor(bytes);
  const auto ethernet = cursor.take(14);
  if (!ethernet) return of_kind(FrameKind::malformed);
  unsigned type = be16(*ethernet, 12);
  int tags = 0;
  while (type == 0x8100 || type == 0x88a8 || type == 0x9100) {  // VLAN
    const auto tag = cursor.take(4);
    if (!tag || ++tags > kMaxTags) return of_kind(FrameKind::malformed);
    type = be16(*tag, 2);
  }
  switch (type) {
    case 0x0800:
      return parse_v4(cursor.rest());
    case 0x86dd:
      return parse_v6(cursor.rest());
    case 0x8847:
    case 0x8848:
      return parse_mpls(cursor, tags);
    case 0x8864:
      return parse_pppoe(cursor);
    default:
      return of_kind(FrameKind::not_ip);
  }
}

}  // namespace weir::reference
