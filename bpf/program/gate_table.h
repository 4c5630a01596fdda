/* The tables of the kernel's gates: what bits an address has. C subset, shared by inclusion (C++, BPF).
 *
 * Here there is one packet at a time, so an access that misses L2 costs more than all else that an innocent packet
 * needs, and a branch that was guessed wrongly costs that much again. So tables are small and let few strangers
 * through: made from the snapshot's keys when it is published (bpf/enforce/gates.h), and not the snapshot's own, which
 * are made for many packets at once (filter/format/gate.h). What they have in common: addresses are their leading 64
 * bits in host order, and a bit that is not set says that no lookup of this side knows the address.
 *
 * A direct table has one bit for each value of the leading bits. A hashed one is a Bloom filter in words of 64 bits: a
 * value has three bits, all in one word. Multiplications by a secret odd number say which; what an attacker could learn
 * of it would cost time and nothing else.
 */
#ifndef WEIR_BPF_GATE_TABLE_H
#define WEIR_BPF_GATE_TABLE_H

#include "filter/format/snapshot.h"

/* The leading bits of the address. 1 <= prefix_bits <= 64. */
static inline weir_u64 weir_leading(weir_u64 address, weir_u32 prefix_bits) {
  return address >> (64u - prefix_bits);
}

/* Of a hashed table: what says where the bits of a value are. Two rounds, because values may differ in their highest
 * bits alone, of which one product's lower half knows nothing. */
static inline weir_u64 weir_spread(weir_u64 leading, weir_u64 multiplier) {
  const weir_u64 once = leading * multiplier;
  return (once ^ once >> 32) * multiplier;
}

/* The word, 0 .. n_words - 1. */
static inline weir_u32 weir_spread_word(weir_u64 spread, weir_u32 n_words) {
  return (weir_u32)((spread >> 32) * n_words >> 32);
}

/* The bits in it. */
static inline weir_u64 weir_spread_bits(weir_u64 spread) {
  return 1ull << (spread >> 38 & 63) | 1ull << (spread >> 32 & 63) | 1ull << (spread >> 26 & 63);
}

#endif
