#include <cstring>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

enum class Kind { address, address_and_port, flow, flow_and_ports };

constexpr bool asks_ports(Kind kind) {
  return kind == Kind::address_and_port || kind == Kind::flow_and_ports;
}

// Leaves out the keys of the packets that have no ports. ports: bit k: that of key k has.
void keep_those_with_ports(uint64_t ports, KeyBatch& batch) noexcept {
  ports &= low_bits(batch.n);
  if (ports == low_bits(batch.n)) return;
  uint32_t kept = 0;
  for (uint32_t k = 0; k < batch.n; k++) {
    for (auto& word : batch.word) word[kept] = word[k];
    batch.key_of[kept] = batch.key_of[k];
    kept += ports >> k & 1;
  }
  batch.n = kept;
}

// Columns to columns, without a branch: whole columns are cheaper than asking how long they are.
template <class Key>
void for_column(Key key) noexcept {
  for (uint32_t k = 0; k < kMaxBurst; k++) key(k);
}

// Canonical bytes: filter/format/key_shape.h.
void gather_v4(const Lookup& lookup, Kind kind, const Burst& burst, KeyBatch& batch) noexcept {
  memcpy(batch.key_of, burst.v4, sizeof batch.key_of);
  batch.n = burst.n_v4;
  const uint64_t* addresses = burst.v4_addresses;
  const uint64_t* fields = burst.v4_fields;
  uint64_t* word = batch.word[0];
  const uint64_t mask = lookup.mask.word[0];
  if (kind == Kind::flow || kind == Kind::flow_and_ports) {
    for_column([=](uint32_t k) { word[k] = addresses[k] & mask; });
    uint64_t* second_word = batch.word[1];
    const uint64_t fields_mask = lookup.mask.word[1];
    for_column([=](uint32_t k) { second_word[k] = fields[k] & fields_mask; });
  } else {
    const unsigned shift = lookup.side == kSource ? 0 : 32;
    const uint64_t address_mask = mask & UINT32_MAX;
    for_column([=](uint32_t k) { word[k] = addresses[k] >> shift & address_mask; });
    if (kind == Kind::address) return;
    const unsigned port_shift = lookup.side == kSource ? 0 : 16;
    for_column([=](uint32_t k) { word[k] |= (fields[k] >> port_shift & UINT16_MAX) << 32; });
  }
  if (asks_ports(kind)) keep_those_with_ports(burst.v4_ports, batch);
}

// Writes key k of the packet with these headers. What the packet does not have may be anything: either the lookup does
// not ask for it, or the key does not count.
template <Kind kKind>
void write_v6_key(const Lookup& lookup, const Headers& headers, KeyBatch& batch, uint32_t k) noexcept {
  const auto& address = headers.address;
  if constexpr (kKind == Kind::flow || kKind == Kind::flow_and_ports) {
    uint32_t ports;
    memcpy(&ports, headers.port, sizeof ports);
    batch.word[0][k] = address[kSource][0] & lookup.mask.word[0];
    batch.word[1][k] = address[kSource][1] & lookup.mask.word[1];
    batch.word[2][k] = address[kDestination][0] & lookup.mask.word[2];
    batch.word[3][k] = address[kDestination][1] & lookup.mask.word[3];
    batch.word[4][k] = (uint64_t{headers.protocol} << 32 | ports) & lookup.mask.word[4];
  } else {
    batch.word[0][k] = address[lookup.side][0] & lookup.mask.word[0];
    batch.word[1][k] = address[lookup.side][1] & lookup.mask.word[1];
    if constexpr (kKind == Kind::address_and_port) batch.word[2][k] = headers.port[lookup.side];
  }
}

template <Kind kKind>
void gather_v6(const Lookup& lookup, const Burst& burst, KeyBatch& batch) noexcept {
  uint32_t k = 0;
  for (uint32_t s = 0; s < burst.n_v6; s++) {
    const Headers& headers = burst.hdr[burst.v6[s]];
    write_v6_key<kKind>(lookup, headers, batch, k);
    batch.key_of[k] = burst.v6[s];
    k += !asks_ports(kKind) || has(headers, WEIR_HAS_PORTS);
  }
  batch.n = k;
}

void gather_v6(const Lookup& lookup, Kind kind, const Burst& burst, KeyBatch& batch) noexcept {
  switch (kind) {
    case Kind::address:
      return gather_v6<Kind::address>(lookup, burst, batch);
    case Kind::address_and_port:
      return gather_v6<Kind::address_and_port>(lookup, burst, batch);
    case Kind::flow:
      return gather_v6<Kind::flow>(lookup, burst, batch);
    case Kind::flow_and_ports:
      return gather_v6<Kind::flow_and_ports>(lookup, burst, batch);
  }
}

Kind kind_of(filter::KeyShape shape) {
  if (!shape.flow) return shape.with_port ? Kind::address_and_port : Kind::address;
  return filter::asks_ports(shape) ? Kind::flow_and_ports : Kind::flow;
}

}  // namespace

void keys(const Lookup& lookup, Burst& burst, KeyBatch& batch) noexcept {
  batch.burst = &burst;
  batch.side = lookup.side;
  const filter::KeyShape shape = lookup.shape->shape;
  const bool is_v4 = shape.family == 4;
  if ((is_v4 ? burst.n_v4 : burst.n_v6) == 0) {
    batch.n = 0;
    return;
  }
  is_v4 ? gather_v4(lookup, kind_of(shape), burst, batch) : gather_v6(lookup, kind_of(shape), burst, batch);
}

}  // namespace weir::dataplane
