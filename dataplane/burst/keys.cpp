#include <cstring>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

enum class Kind { address, address_and_port, flow, flow_and_ports };

constexpr bool is_flow(Kind kind) {
  return kind == Kind::flow || kind == Kind::flow_and_ports;
}

constexpr bool asks_ports(Kind kind) {
  return kind == Kind::address_and_port || kind == Kind::flow_and_ports;
}

// Calls write(k, slot) for each slot of the mask. How many there are.
template <class Write>
uint32_t for_slots(uint64_t slots, KeyBatch& batch, Write write) noexcept {
  uint32_t k = 0;
  for (uint64_t left = slots; left != 0; left &= left - 1, k++) {
    const auto slot = static_cast<uint32_t>(__builtin_ctzll(left));
    batch.key_of[k] = static_cast<uint8_t>(slot);
    write(k, slot);
  }
  return k;
}

// Canonical bytes: filter/format/key_shape.h.
template <Kind kKind>
uint32_t gather_v4(const Lookup& lookup, const Burst& burst, uint64_t slots, KeyBatch& batch) noexcept {
  if constexpr (asks_ports(kKind)) slots &= burst.v4_ports;
  const uint64_t* addresses = burst.v4_addresses;
  const uint64_t* fields = burst.v4_fields;
  uint64_t* word = batch.word[0];
  const uint64_t mask = lookup.mask.word[0];
  if constexpr (is_flow(kKind)) {
    uint64_t* second_word = batch.word[1];
    const uint64_t fields_mask = lookup.mask.word[1];
    return for_slots(slots, batch, [=](uint32_t k, uint32_t slot) {
      word[k] = addresses[slot] & mask;
      second_word[k] = fields[slot] & fields_mask;
    });
  } else {
    const unsigned shift = lookup.side == kSource ? 0 : 32, port_shift = lookup.side == kSource ? 0 : 16;
    const uint64_t address_mask = mask & UINT32_MAX;
    return for_slots(slots, batch, [=](uint32_t k, uint32_t slot) {
      word[k] = addresses[slot] >> shift & address_mask;
      if constexpr (kKind == Kind::address_and_port) {
        word[k] |= (fields[slot] >> port_shift & UINT16_MAX) << 32;
      }
    });
  }
}

// Writes key k of the packet with these headers.
template <Kind kKind>
void write_v6_key(const Lookup& lookup, const Headers& headers, KeyBatch& batch, uint32_t k) noexcept {
  const auto& address = headers.address;
  if constexpr (is_flow(kKind)) {
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
uint32_t gather_v6(const Lookup& lookup, Burst& burst, uint64_t slots, KeyBatch& batch) noexcept {
  uint64_t with_fields = slots;
  if constexpr (kKind != Kind::address) {
    for (uint64_t left = slots; left != 0; left &= left - 1) {
      const auto slot = static_cast<uint32_t>(__builtin_ctzll(left));
      const bool has_all = has(headers_of(burst, slot), WEIR_HAS_PORTS) || !asks_ports(kKind);
      with_fields &= ~(uint64_t{!has_all} << slot);
    }
  }
  return for_slots(with_fields, batch,
                   [&](uint32_t k, uint32_t slot) { write_v6_key<kKind>(lookup, burst.hdr[slot], batch, k); });
}

template <Kind kKind>
uint32_t gather(const Lookup& lookup, Burst& burst, uint64_t slots, KeyBatch& batch) noexcept {
  const bool is_v4 = lookup.shape->shape.family == 4;
  return is_v4 ? gather_v4<kKind>(lookup, burst, slots, batch) : gather_v6<kKind>(lookup, burst, slots, batch);
}

// A bitmap of networks is what the table of a gate is: a bit for each /24.
uint64_t in_bitmap(const Lookup& lookup, const filter::Kernels& kernels, const Burst& burst, uint64_t slots) noexcept {
  const auto* bits = reinterpret_cast<const uint64_t*>(lookup.shape->filter.bits);
  const auto n = 64 - static_cast<uint32_t>(__builtin_clzll(slots));
  return kernels.gate_v4(bits, lookup.shape->shape.addr_bits, burst.v4_addresses, lookup.side, n);
}

Kind kind_of(filter::KeyShape shape) {
  if (!shape.flow) return shape.with_port ? Kind::address_and_port : Kind::address;
  return filter::asks_ports(shape) ? Kind::flow_and_ports : Kind::flow;
}

}  // namespace

void keys(const Lookup& lookup, const filter::Kernels& kernels, Burst& burst, KeyBatch& batch) noexcept {
  batch.burst = &burst;
  batch.side = lookup.side;
  batch.part = lookup.part;
  batch.n = 0;
  const filter::KeyShape shape = lookup.shape->shape;
  uint64_t slots = burst.asked[lookup.gate_side] & (shape.family == 4 ? burst.v4 : burst.v6);
  if (slots != 0 && lookup.shape->layout == WEIR_LAYOUT_BITMAP) slots &= in_bitmap(lookup, kernels, burst, slots);
  if (slots == 0) return;
  switch (kind_of(shape)) {
    case Kind::address:
      batch.n = gather<Kind::address>(lookup, burst, slots, batch);
      return;
    case Kind::address_and_port:
      batch.n = gather<Kind::address_and_port>(lookup, burst, slots, batch);
      return;
    case Kind::flow:
      batch.n = gather<Kind::flow>(lookup, burst, slots, batch);
      return;
    case Kind::flow_and_ports:
      batch.n = gather<Kind::flow_and_ports>(lookup, burst, slots, batch);
  }
}

}  // namespace weir::dataplane
