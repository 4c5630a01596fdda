#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "common/ip.h"
#include "filter/snapshot.h"

namespace weir::filter {

// Which packet fields form a key. Address shapes have no direction: one table, probed with the source address (and
// source port) and with the destination address (and destination port), as the shape's directions say.
//
// Canonical bytes, network order, zero where a field has fewer bits:
//   v4:        address[4] 0 0 0 0             1 word         v6:        address[16]               2 words
//   v4 + port: address[4] port[2] 0 0         1 word         v6 + port: address[16] port[2] 0..   3 words
// Bits behind addr_bits are zero. A key is handled as little-endian 64-bit words of these bytes.
struct KeyShape {
  uint8_t family = 4;  // 4 or 6
  uint8_t addr_bits = 32;
  bool with_port = false;

  bool operator==(const KeyShape&) const = default;
};

constexpr KeyShape shape_of(const weir_shape& shape) {
  return {shape.family, shape.addr_bits, shape.with_port != 0};
}

constexpr unsigned key_words(KeyShape shape) {
  return shape.family == 4 ? 1 : shape.with_port ? 3 : 2;
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

}  // namespace weir::filter
