#include "tests/reference/frames.h"

#include <algorithm>
#include <optional>

namespace weir::reference {

namespace {

using Bytes = std::span<const uint8_t>;

constexpr int kMaxTags = 8;               // VLAN tags and MPLS labels together
constexpr int kMaxExtensionHeaders = 16;  // of one IPv6 packet
constexpr int kMaxGtpExtensionHeaders = 16;
constexpr size_t kMaxLayers = 4;

// One layer, and what is inside its last header.
struct Layer {
  FrameKind kind = FrameKind::not_ip;
  bool incomplete = false;
  PacketKeys keys;
  Bytes payload;  // to the packet's end; empty where nobody may look: later fragments, incomplete chains
};

// Bytes not yet read. take() gives the next ones, or nothing when fewer are left.
class Cursor {
 public:
  explicit Cursor(Bytes bytes) : bytes_(bytes) {}

  std::optional<Bytes> take(size_t count) {
    if (bytes_.size() < count) return std::nullopt;
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  Bytes rest() const { return bytes_; }

 private:
  Bytes bytes_;
};

unsigned be16(Bytes bytes, size_t at) {
  return bytes[at] * 256u + bytes[at + 1];
}

Layer of_kind(FrameKind kind) {
  Layer layer;
  layer.kind = kind;
  return layer;
}

// Everything that the transport header tells, from the packet's bytes behind the IP headers.
void read_transport(Layer& layer, Bytes payload) {
  layer.payload = payload;
  PacketKeys& keys = layer.keys;
  switch (keys.protocol) {
    case 6:    // TCP
    case 17:   // UDP
    case 33:   // DCCP
    case 132:  // SCTP
    case 136:  // UDP-Lite
      if (payload.size() >= 4) {
        keys.has_ports = true;
        keys.sport = static_cast<uint16_t>(be16(payload, 0));
        keys.dport = static_cast<uint16_t>(be16(payload, 2));
      }
      break;
    case 1:   // ICMP
    case 58:  // ICMPv6
      if (payload.size() >= 1) {
        keys.has_icmp_type = true;
        keys.icmp_type = payload[0];
      }
      if (payload.size() >= 2) {
        keys.has_icmp_code = true;
        keys.icmp_code = payload[1];
      }
      break;
    default:
      break;
  }
  if (keys.protocol == 6 && payload.size() >= 14) {
    keys.has_tcp_flags = true;
    keys.tcp_flags = payload[13];
  }
}

// The bytes of a packet: to the end of the frame, or to what its length field says, whichever comes first.
// length 0 (segmentation offload, jumbograms): the frame's end.
Bytes packet_bytes(Bytes bytes, size_t length) {
  return length == 0 ? bytes : bytes.first(std::min(length, bytes.size()));
}

// RFC 791: the one's complement sum over an intact header is 0xffff.
bool checksum_is_right(Bytes header) {
  uint32_t sum = 0;
  for (size_t i = 0; i < header.size(); i += 2) sum += be16(header, i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return sum == 0xffff;
}

// The header, options included, when it is trusted.
std::optional<Bytes> trusted_v4_header(Bytes bytes) {
  if (bytes.size() < 20 || bytes[0] >> 4 != 4) return std::nullopt;
  const size_t header_bytes = (bytes[0] & 15u) * 4u;
  const size_t total_length = be16(bytes, 2);
  if (header_bytes < 20 || header_bytes > bytes.size()) return std::nullopt;
  if (total_length != 0 && total_length < header_bytes) return std::nullopt;
  return bytes.first(header_bytes);
}

Layer parse_v4(Bytes bytes) {
  const auto header = trusted_v4_header(bytes);
  if (!header) return of_kind(FrameKind::malformed);
  Layer layer = of_kind(FrameKind::ip);
  layer.keys.src = ipv4_from_bytes(header->data() + 12);
  layer.keys.dst = ipv4_from_bytes(header->data() + 16);
  layer.keys.protocol = (*header)[9];
  const size_t total_length = be16(*header, 2);
  layer.keys.length = total_length == 0 ? bytes.size() : total_length;
  layer.keys.dscp = (*header)[1] / 4u;
  const unsigned offset = be16(*header, 6) % 0x2000u;
  const bool more_to_come = ((*header)[6] & 0x20) != 0;
  if (offset == 0 && more_to_come) layer.keys.fragment = PacketKeys::Fragment::first;
  if (offset != 0) {
    layer.keys.fragment = PacketKeys::Fragment::later;
    return layer;
  }
  Cursor packet(packet_bytes(bytes, be16(*header, 2)));
  packet.take(header->size());
  read_transport(layer, packet.rest());
  return layer;
}

bool is_trusted_v6_header(Bytes bytes) {
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

Layer parse_v6(Bytes bytes) {
  if (!is_trusted_v6_header(bytes)) return of_kind(FrameKind::malformed);
  Layer layer = of_kind(FrameKind::ip);
  layer.keys.family = 6;
  layer.keys.src = ipv6_from_bytes(bytes.data() + 8);
  layer.keys.dst = ipv6_from_bytes(bytes.data() + 24);
  layer.keys.protocol = bytes[6];
  const size_t payload_length = be16(bytes, 4);
  layer.keys.length = payload_length == 0 ? bytes.size() : 40 + payload_length;
  layer.keys.dscp = (bytes[0] % 16u) * 4u + bytes[1] / 64u;
  Cursor packet(packet_bytes(bytes, payload_length == 0 ? 0 : 40 + payload_length));
  packet.take(40);
  for (int walked = 0;; walked++) {
    const auto header_bytes = extension_header_bytes(layer.keys.protocol, packet);
    if (header_bytes == 0u) {
      read_transport(layer, packet.rest());
      return layer;
    }
    const auto header = header_bytes && walked < kMaxExtensionHeaders ? packet.take(*header_bytes) : std::nullopt;
    if (!header) {
      layer.incomplete = true;  // the protocol stays the number of the header that was not walked
      return layer;
    }
    const bool is_fragment_header = layer.keys.protocol == 44;
    layer.keys.protocol = (*header)[0];
    if (!is_fragment_header) continue;
    if (be16(*header, 2) >> 3 != 0) {
      layer.keys.fragment = PacketKeys::Fragment::later;
      return layer;
    }
    if (((*header)[3] & 1) != 0) layer.keys.fragment = PacketKeys::Fragment::first;
  }
}

// What follows the last label: the first nibble chooses the family; it may be a pseudowire, so nothing is malformed.
Layer parse_after_mpls(Bytes bytes) {
  const auto v4_header = trusted_v4_header(bytes);
  if (v4_header && checksum_is_right(*v4_header)) return parse_v4(bytes);
  if (is_trusted_v6_header(bytes)) return parse_v6(bytes);
  return of_kind(FrameKind::not_ip);
}

Layer parse_mpls(Cursor cursor, int tags) {
  while (true) {
    const auto label = cursor.take(4);
    if (!label || ++tags > kMaxTags) return of_kind(FrameKind::malformed);
    const bool bottom_of_stack = ((*label)[2] & 1) != 0;
    if (bottom_of_stack) return parse_after_mpls(cursor.rest());
  }
}

Layer parse_pppoe(Cursor cursor) {
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

Layer parse_ethernet(Bytes bytes) {
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

// Tunnels. Each takes what lies behind the outer packet's IP headers, or behind its UDP header, and gives the layer
// inside; a layer of another kind than ip is none.

Layer parse_by_ethertype(unsigned type, Bytes bytes) {
  if (type == 0x0800) return parse_v4(bytes);
  if (type == 0x86dd) return parse_v6(bytes);
  if (type == 0x6558) return parse_ethernet(bytes);
  return {};
}

Layer inside_gre(Bytes bytes) {
  Cursor cursor(bytes);
  const auto header = cursor.take(4);
  if (!header) return {};
  const unsigned flags_and_version = be16(*header, 0);
  if ((flags_and_version & 0x4007) != 0) return {};          // source routing, or another version
  for (const unsigned flag : {0x8000u, 0x2000u, 0x1000u}) {  // checksum, key, sequence number: four bytes each
    if ((flags_and_version & flag) != 0 && !cursor.take(4)) return {};
  }
  const unsigned type = be16(*header, 2);
  if (type == 0x8847 || type == 0x8848) return parse_mpls(cursor, 0);
  return parse_by_ethertype(type, cursor.rest());
}

Layer inside_vxlan(Bytes bytes) {
  Cursor cursor(bytes);
  const auto header = cursor.take(8);
  const bool has_network = header && ((*header)[0] & 8) != 0;
  return has_network ? parse_ethernet(cursor.rest()) : Layer{};
}

Layer inside_geneve(Bytes bytes) {
  Cursor cursor(bytes);
  const auto header = cursor.take(8);
  if (!header) return {};
  const unsigned version = (*header)[0] / 64u, option_words = (*header)[0] % 64u;
  if (version != 0 || !cursor.take(option_words * 4)) return {};
  return parse_by_ethertype(be16(*header, 2), cursor.rest());
}

Layer inside_gtpu(Bytes bytes) {
  Cursor cursor(bytes);
  const auto header = cursor.take(8);
  if (!header) return {};
  const unsigned flags = (*header)[0], message_type = (*header)[1];
  const bool is_gtp = flags >> 5 == 1 && (flags & 0x10) != 0;  // version 1, protocol type 1
  if (!is_gtp || message_type != 255) return {};
  const bool extended = (flags & 4) != 0, sequence = (flags & 2) != 0, n_pdu = (flags & 1) != 0;
  unsigned next_extension = 0;
  if (extended || sequence || n_pdu) {
    const auto optional = cursor.take(4);
    if (!optional) return {};
    if (extended) next_extension = (*optional)[3];
  }
  for (int walked = 0; next_extension != 0; walked++) {
    if (walked == kMaxGtpExtensionHeaders || cursor.rest().empty() || cursor.rest()[0] == 0) return {};
    const auto extension = cursor.take(cursor.rest()[0] * size_t{4});
    if (!extension) return {};
    next_extension = extension->back();
  }
  const Bytes packet = cursor.rest();
  if (packet.empty()) return {};
  if (packet[0] >> 4 == 4) return parse_v4(packet);
  if (packet[0] >> 4 == 6) return parse_v6(packet);
  return {};
}

Layer inside_teredo(Bytes bytes) {
  Cursor cursor(bytes);
  if (bytes.size() >= 2 && be16(bytes, 0) == 1) {  // authentication
    const auto start = cursor.take(4);
    if (!start) return {};
    const size_t identifier_bytes = (*start)[2], value_bytes = (*start)[3];
    if (!cursor.take(identifier_bytes) || !cursor.take(value_bytes) || !cursor.take(9)) return {};
  }
  if (cursor.rest().size() >= 2 && be16(cursor.rest(), 0) == 0) {  // origin indication
    if (!cursor.take(8)) return {};
  }
  return parse_v6(cursor.rest());
}

Layer inside_udp(const PacketKeys& outer, Bytes payload, uint8_t tunnels) {
  Cursor cursor(payload);
  if (!outer.has_ports || !cursor.take(8)) return {};
  const auto to = [&](unsigned port) { return outer.dport == port; };
  const auto to_or_from = [&](unsigned port) { return outer.dport == port || outer.sport == port; };
  // Ports of two tunnels: the first of these counts.
  if ((tunnels & WEIR_TUNNEL_VXLAN) != 0 && to(4789)) return inside_vxlan(cursor.rest());
  if ((tunnels & WEIR_TUNNEL_GENEVE) != 0 && to(6081)) return inside_geneve(cursor.rest());
  if ((tunnels & WEIR_TUNNEL_GTPU) != 0 && to_or_from(2152)) return inside_gtpu(cursor.rest());
  if ((tunnels & WEIR_TUNNEL_TEREDO) != 0 && to_or_from(3544)) return inside_teredo(cursor.rest());
  return {};
}

// The layer inside; of another kind than ip: there is none.
Layer inside(const Layer& outer, uint8_t tunnels) {
  const auto looked_into = [&](weir_tunnel tunnel) { return (tunnels & tunnel) != 0; };
  if (outer.payload.empty()) return {};
  switch (outer.keys.protocol) {
    case 4:
      return looked_into(WEIR_TUNNEL_IPIP) ? parse_v4(outer.payload) : Layer{};
    case 41:
      return looked_into(WEIR_TUNNEL_6IN4) ? parse_v6(outer.payload) : Layer{};
    case 47:
      return looked_into(WEIR_TUNNEL_GRE) ? inside_gre(outer.payload) : Layer{};
    case 17:
      return inside_udp(outer.keys, outer.payload, tunnels);
    default:
      return {};
  }
}

}  // namespace

Frame parse_frame(Bytes bytes, uint8_t tunnels) {
  Layer layer = parse_ethernet(bytes);
  Frame frame;
  frame.kind = layer.kind;
  while (layer.kind == FrameKind::ip && frame.layers.size() < kMaxLayers) {
    frame.layers.push_back(layer.keys);
    frame.incomplete = frame.incomplete || layer.incomplete;
    layer = inside(layer, tunnels);
  }
  return frame;
}

}  // namespace weir::reference
