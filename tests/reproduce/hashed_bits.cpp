// Compiled with AVX2: intrinsics only, as the kernels of filter/kernels.

#include "tests/reproduce/hashed_bits.h"

#include "filter/kernels/gates.h"

namespace weir::reproduce {

uint64_t hashed_v4_avx2(const uint64_t* bits, unsigned index_bits, uint32_t multiplier, const uint64_t* addresses,
                        unsigned n) {
  const auto* words = reinterpret_cast<const int*>(bits);
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(32 - index_bits));
  const __m256i multipliers = _mm256_set1_epi32(static_cast<int>(multiplier));
  uint64_t known = 0;
  for (unsigned i = 0; i < n; i += 8) {
    const __m256i host = filter::eight_addresses(addresses + i, 0);
    const __m256i index = _mm256_srl_epi32(_mm256_mullo_epi32(host, multipliers), shift);
    known |= filter::bits_of_eight(words, index) << i;
  }
  return n >= filter::kMaxBatch ? known : known & ((uint64_t{1} << n) - 1);
}

}  // namespace weir::reproduce
