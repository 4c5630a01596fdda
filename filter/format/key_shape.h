#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "common/ip.h"
#include "filter/format/snapshot.h"

namespace weir::filter {

// Which packet fields form a key. Address shapes have no direction: one table, probed with the source address (and
// source port) and with the destination address (and destination port), as the shape's directions say. A flow shape is
// probed once: with leading bits of both addresses, and with protocol and ports where its fields say so.
//
// Canonical bytes, network order, zero where a field has fewer bits or is not in the shape:
//   v4:        address[4] 0 0 0 0             1 word         v6:        address[16]               2 words
//   v4 + port: address[4] port[2] 0 0         1 word         v6 + port: address[16] port[2] 0..   3 words
//   flow:      source, destination, sport[2] dport[2] protocol 0 0 0          v4: 2 words, v6: 5 words
// Bits behind addr_bits are zero. A key is handled as little-endian 64-bit words of these bytes.
struct KeyShape {
  uint8_t family = 4;      // 4 or 6
  uint8_t addr_bits = 32;  // flow: of the source
  bool with_port = false;
  bool flow = false;
  uint8_t destination_bits = 0;  // flow
  uint8_t flow_fields = 0;       // flow: mask of weir_flow_field

  bool operator==(const KeyShape&) const = default;
};

constexpr KeyShape shape_of(const weir_shape& shape) {
  return {shape.family,    shape.addr_bits,        shape.with_port != 0,
          shape.flow != 0, shape.destination_bits, shape.flow_fields};
}

constexpr unsigned key_words(KeyShape shape) {
  if (shape.flow) return shape.family == 4 ? 2 : 5;
  return shape.family == 4 ? 1 : shape.with_port ? 3 : 2;
}

// Only packets that have ports have such a key.
constexpr bool asks_ports(KeyShape shape) {
  return shape.with_port || (shape.flow_fields & (WEIR_FLOW_SPORT | WEIR_FLOW_DPORT)) != 0;
}

struct Key {
  std::array<uint64_t, WEIR_MAX_KEY_WORDS> word = {};
  bool operator==(const Key&) const = default;
};

inline uint64_t load_word(const void* bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof word);
  return word;
}

// Big-endian mask of the leading bits of an 8-byte half, as a little-endian word.
constexpr uint64_t word_mask(unsigned leading_bits) {
  return leading_bits == 0 ? 0 : __builtin_bswap64(~uint64_t{0} << (64 - leading_bits));
}

// port: host order; ignored without with_port.
inline Key make_key(KeyShape shape, Ipv4 address, uint16_t port = 0) {
  Key key;
  key.word[0] = __builtin_bswap32(address & prefix_mask<Ipv4>(shape.addr_bits));
  if (shape.with_port) key.word[0] |= uint64_t{__builtin_bswap16(port)} << 32;
  return key;
}

inline Key make_key(KeyShape shape, Ipv6 address, uint16_t port = 0) {
  address &= prefix_mask<Ipv6>(shape.addr_bits);
  Key key;
  key.word[0] = __builtin_bswap64(static_cast<uint64_t>(address >> 64));
  key.word[1] = __builtin_bswap64(static_cast<uint64_t>(address));
  if (shape.with_port) key.word[2] = __builtin_bswap16(port);
  return key;
}

// Of a flow shape. Ports in host order; what the shape does not hold is ignored.
struct FlowFields {
  uint16_t sport = 0, dport = 0;
  uint8_t protocol = 0;
};

// Sports and dports, then the protocol, as the last word of a flow key; those that the shape does not hold are zero.
constexpr uint64_t flow_word(KeyShape shape, FlowFields fields) {
  uint64_t word = 0;
  if ((shape.flow_fields & WEIR_FLOW_SPORT) != 0) word |= __builtin_bswap16(fields.sport);
  if ((shape.flow_fields & WEIR_FLOW_DPORT) != 0) word |= uint64_t{__builtin_bswap16(fields.dport)} << 16;
  if ((shape.flow_fields & WEIR_FLOW_PROTOCOL) != 0) word |= uint64_t{fields.protocol} << 32;
  return word;
}

inline Key make_flow_key(KeyShape shape, Ipv4 source, Ipv4 destination, FlowFields fields) {
  Key key;
  key.word[0] = __builtin_bswap32(source & prefix_mask<Ipv4>(shape.addr_bits)) |
                uint64_t{__builtin_bswap32(destination & prefix_mask<Ipv4>(shape.destination_bits))} << 32;
  key.word[1] = flow_word(shape, fields);
  return key;
}

inline Key make_flow_key(KeyShape shape, Ipv6 source, Ipv6 destination, FlowFields fields) {
  source &= prefix_mask<Ipv6>(shape.addr_bits);
  destination &= prefix_mask<Ipv6>(shape.destination_bits);
  return {{__builtin_bswap64(static_cast<uint64_t>(source >> 64)), __builtin_bswap64(static_cast<uint64_t>(source)),
           __builtin_bswap64(static_cast<uint64_t>(destination >> 64)),
           __builtin_bswap64(static_cast<uint64_t>(destination)), flow_word(shape, fields)}};
}

}  // namespace weir::filter
