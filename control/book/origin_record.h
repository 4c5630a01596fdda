#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "common/ip.h"
#include "filter/format/snapshot.h"

// The bytes of an origin file, for those who write it and search it (control/book/origin.h).
namespace weir::control::origin_file {

constexpr uint64_t kMagic = 0x4749524f52494557;  // "WEIRORIG"
constexpr uint32_t kVersion = 4;

struct Header {
  uint64_t magic;
  uint32_t version;
  uint32_t n_lists;
  uint64_t n_v4;
  uint64_t n_v6;
  uint64_t n_conditional;
  uint64_t text_bytes;
};
static_assert(sizeof(Header) == 48);

struct TextRef {  // into the text part
  uint32_t offset;
  uint32_t bytes;
};

struct ListRecord {
  TextRef name;
  TextRef files[2];
};
static_assert(sizeof(ListRecord) == 24);

// Which entry of which list; one byte holds what needs three bits.
struct Place {
  uint32_t line;
  uint16_t port;
  uint8_t list;
  uint8_t flags;  // bits 0..1 directions, bit 2 source
};
constexpr uint8_t kDirections = WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
constexpr unsigned kSourceShift = 2;
constexpr uint8_t kFlags = kDirections | 1 << kSourceShift;

struct RecordV4 {
  Ipv4 first;
  Ipv4 last;
  Place place;
};
static_assert(sizeof(RecordV4) == 16);

struct RecordV6 {
  uint64_t first[2];  // high, low half
  uint64_t last[2];
  Place place;
};
static_assert(sizeof(RecordV6) == 40);

// An entry that the address alone does not decide: a flow, or addresses that expire.
struct RecordConditional {
  // What a packet must have. Addresses that expire: no address is asked, and the sides that Place names hold the range.
  // Sides that are not named hold no address: first > last.
  weir_residual condition;
  TextRef text;
  Place place;
  uint64_t family;  // 4, 6; 0: both
};
static_assert(sizeof(RecordConditional) == 152);

inline Ipv4 address_of(Ipv4 stored) {
  return stored;
}
inline Ipv6 address_of(const uint64_t (&stored)[2]) {
  return Ipv6{stored[0]} << 64 | stored[1];
}
inline Ipv6 first_of(const weir_residual& condition, int side) {
  return address_of(side == 0 ? condition.source_first : condition.destination_first);
}
inline Ipv6 last_of(const weir_residual& condition, int side) {
  return address_of(side == 0 ? condition.source_last : condition.destination_last);
}

template <class T>
T load(const std::byte* bytes) {
  T value;
  memcpy(&value, bytes, sizeof value);
  return value;
}

}  // namespace weir::control::origin_file
