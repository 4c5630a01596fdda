/* Gates: does any lookup of a side know the address? THE definition; kernels of the data plane ask exactly these bits,
 * XDP has tables of its own (bpf/program/gate_table.h).
 *
 * C subset, shared by inclusion (C++, BPF, tests). An address is its leading 64 bits in host order: IPv6's high half,
 * IPv4 in the upper 32 bits. */
#ifndef WEIR_FILTER_GATE_H
#define WEIR_FILTER_GATE_H

#include "filter/format/snapshot.h"

/* Which of the header's gates: family 4 or 6; side: enum weir_side. */
static inline weir_u32 weir_gate_number(weir_u32 family, weir_u32 side) {
  return (family == 6 ? 2u : 0u) + side;
}

/* From the words of a packet, as on the wire. */
static inline weir_u64 weir_gate_address_v4(weir_u32 address_be) {
  return (weir_u64)__builtin_bswap32(address_be) << 32;
}
static inline weir_u64 weir_gate_address_v6(weir_u64 high_half_be) {
  return __builtin_bswap64(high_half_be);
}

/* The address's bit, 0 .. 2^index_bits - 1. Hashed: multiply-shift, universal for a secret odd multiplier
 * (Dietzfelbinger et al., "A reliable randomized algorithm for the closest-pair problem", 1997). 1 <= prefix_bits
 * <= 64. */
static inline weir_u32 weir_gate_index(weir_u32 prefix_bits, weir_u32 index_bits, weir_u64 multiplier,
                                       weir_u64 address) {
  const weir_u64 leading = address >> (64u - prefix_bits);
  return (weir_u32)(index_bits == prefix_bits ? leading : leading * multiplier >> (64u - index_bits));
}

static inline weir_u64 weir_gate_table_bytes(weir_u32 index_bits) {
  return (weir_u64)1 << index_bits >> 3;
}

/* Do lookups of this shape need an address that the gate of this side lets through? side: enum weir_side. An address
 * shape stands at each side on which it is asked, a flow shape at the one that the snapshot names. */
static inline weir_u32 weir_stands_at(const struct weir_shape* shape, weir_u32 side) {
  if (shape->flow) return shape->directions != 0 && shape->gate_side == side;
  return (weir_u32)(shape->directions >> side) & 1u;
}

static inline weir_u32 weir_gate_bit(const weir_u64* bits, weir_u32 index) {
  return (weir_u32)(bits[index >> 6] >> (index & 63u)) & 1u;
}

#endif
