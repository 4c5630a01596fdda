// The gate's rival: a bitmap of as many bytes with one bit for the hash of each address, so that neighbours lie far
// from each other.
#pragma once

#include <cstdint>

namespace weir::reproduce {

// Multiply-shift with an odd multiplier that nobody outside knows (Dietzfelbinger et al. 1997), as the gates of IPv6
// have it: the cheapest hash that an attacker cannot aim at. address: host order. index_bits: 1..32.
constexpr uint32_t hashed_index(uint32_t address, uint32_t multiplier, unsigned index_bits) {
  return address * multiplier >> (32 - index_bits);
}

// As GateV4 (filter/kernels/kernels.h), of sources: bit i is 1 when the bit of packet i's source is set.
using HashedV4 = uint64_t (*)(const uint64_t* bits, unsigned index_bits, uint32_t multiplier, const uint64_t* addresses,
                              unsigned n);

inline uint64_t hashed_v4_scalar(const uint64_t* bits, unsigned index_bits, uint32_t multiplier,
                                 const uint64_t* addresses, unsigned n) {
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i++) {
    const uint32_t address = __builtin_bswap32(static_cast<uint32_t>(addresses[i]));
    const uint32_t index = hashed_index(address, multiplier, index_bits);
    known |= (bits[index >> 6] >> (index & 63) & 1) << i;
  }
  return known;
}

// The same, eight at a time: what the product's kernel of the gate does, and a multiplication. Needs AVX2.
uint64_t hashed_v4_avx2(const uint64_t* bits, unsigned index_bits, uint32_t multiplier, const uint64_t* addresses,
                        unsigned n);

inline HashedV4 best_hashed_v4() {
  return __builtin_cpu_supports("avx2") ? hashed_v4_avx2 : hashed_v4_scalar;
}

}  // namespace weir::reproduce
