/* Gates: does any lookup of a side know the address? The definition; planner, builder, both planes and the proof ask
 * exactly these bits.
 *
 * A packet that no gate lets through is decided by one or two loads, so tables are small and let few strangers through.
 * Networks suit a direct table: one bit for all addresses with the same leading bits, and a range of them is a run of
 * bits. Hosts suit words: as many bits let through fewer strangers, and a neighbour of a listed host is a stranger like
 * any other (docs/develop/gate.md).
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

/* Of words: says where the bits of a value are. Multiply-shift, universal for a secret odd multiplier (Dietzfelbinger
 * et al., "A reliable randomized algorithm for the closest-pair problem", 1997). Two rounds, because values may differ
 * in their highest bits alone, and the lower half of one product does not depend on these. An attacker who learns bits
 * of it gains no verdict. */
static inline weir_u64 weir_gate_spread(weir_u64 leading, weir_u64 multiplier) {
  const weir_u64 once = leading * multiplier;
  return (once ^ once >> 32) * multiplier;
}

/* The word that a table is asked for, and the bits in it that a known address has. */
struct weir_gate_place {
  weir_u32 word;
  weir_u64 bits;
};

/* n_words, multiplier: of the table and its gate; direct: n_words is 0. 1 <= prefix_bits <= 64. */
static inline struct weir_gate_place weir_gate_place_of(weir_u32 prefix_bits, weir_u32 n_words, weir_u64 multiplier,
                                                        weir_u64 address) {
  const weir_u64 leading = address >> (64u - prefix_bits);
  struct weir_gate_place place;
  if (n_words == 0) {
    place.word = (weir_u32)(leading >> 6);
    place.bits = 1ull << (leading & 63);
  } else {
    const weir_u64 spread = weir_gate_spread(leading, multiplier);
    place.word = (weir_u32)((spread >> 32) * n_words >> 32);
    /* The word takes bits 63 to 40, however many words there are: none of them may say where its bits are. */
    place.bits = 1ull << (spread >> 32 & 63) | 1ull << (spread >> 26 & 63) | 1ull << (spread >> 20 & 63);
  }
  return place;
}

/* 1: the table knows the address. bits: the table's. */
static inline weir_u32 weir_gate_knows(const weir_u64* bits, weir_u32 prefix_bits, weir_u32 n_words,
                                       weir_u64 multiplier, weir_u64 address) {
  const struct weir_gate_place place = weir_gate_place_of(prefix_bits, n_words, multiplier, address);
  return (bits[place.word] & place.bits) == place.bits;
}

/* Words of 64 bits. */
static inline weir_u64 weir_gate_table_words(weir_u32 prefix_bits, weir_u32 n_words) {
  return n_words != 0 ? n_words : (weir_u64)1 << prefix_bits >> 6;
}

/* Do lookups of this shape need an address that the gate of this side lets through? side: enum weir_side. An address
 * shape stands at each side on which it is asked, a flow shape at the one that the snapshot names. */
static inline weir_u32 weir_stands_at(const struct weir_shape* shape, weir_u32 side) {
  if (shape->flow) return shape->directions != 0 && shape->gate_side == side;
  return (weir_u32)(shape->directions >> side) & 1u;
}

#endif
