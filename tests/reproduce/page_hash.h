// Hash functions that choose a page from a 16-byte key, and what an attacker who knows them can compute: key sets for
// one page. Of CRC32C, whose every step is linear, also sets that stay together whatever the secret initial value is.
#pragma once

#include <nmmintrin.h>
#include <xxhash.h>

#include <array>
#include <cstring>

#include "filter/format/siphash.h"
#include "tests/reproduce/measure.h"

namespace weir::reproduce {

using TextKey = std::array<uint64_t, 2>;  // 16 bytes, as the paper's keys

inline TextKey text_key(uint64_t i) {
  return {scatter(2 * i), scatter(2 * i + 1)};
}

inline uint64_t crc32c(const TextKey& key, uint32_t init) {
  const uint64_t crc = _mm_crc32_u64(_mm_crc32_u64(init, key[0]), key[1]);
  return crc << 32;  // as a 64-bit hash: range reduction takes the high half
}

inline uint64_t fnv1a(const TextKey& key, uint64_t basis) {  // draft-eastlake-fnv
  unsigned char bytes[sizeof key];
  std::memcpy(bytes, key.data(), sizeof key);
  uint64_t hash = basis;
  for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3u;
  return hash;
}
constexpr uint64_t kFnvBasis = 0xcbf29ce484222325u;

inline uint64_t xxh64(const TextKey& key, uint64_t seed) {
  return XXH64(key.data(), sizeof key, seed);
}

inline uint64_t siphash(const TextKey& key, const weir_u64 secret[2]) {
  return weir_siphash13(secret, key.data(), 2);
}

// n keys that `hash` sends to `page` of `pages`: try and keep. Costs about n * pages hashes.
template <class Hash>
std::vector<TextKey> keys_of_page(Hash hash, uint64_t pages, uint64_t page, uint64_t n) {
  std::vector<TextKey> keys;
  for (uint64_t i = 0; keys.size() < n; i++) {
    const TextKey key = text_key((uint64_t{1} << 50) + i);
    if (reduce(hash(key), pages) == page) keys.push_back(key);
  }
  return keys;
}

// Differences that leave the CRC alone: crc(x ^ d) = crc(x) for every x and every initial value. The CRC of 128 bits is
// 32 linear equations, so there are 2^96 of them; this is a basis, by Gaussian elimination.
inline std::vector<TextKey> crc_kernel() {
  std::array<std::pair<uint32_t, TextKey>, 32> pivots{};  // by leading bit of the CRC
  std::vector<TextKey> kernel;
  for (unsigned bit = 0; bit < 128; bit++) {
    TextKey key{};
    key[bit / 64] = uint64_t{1} << (bit % 64);
    auto image = static_cast<uint32_t>(crc32c(key, 0) >> 32);
    while (image != 0) {
      auto& [pivot, pivot_key] = pivots[static_cast<unsigned>(__builtin_clz(image))];
      if (pivot == 0) {
        pivot = image;
        pivot_key = key;
        break;
      }
      image ^= pivot;
      key = {key[0] ^ pivot_key[0], key[1] ^ pivot_key[1]};
    }
    if (image == 0) kernel.push_back(key);
  }
  return kernel;
}

// n keys of one CRC, different from each other: a base and sums of the kernel's basis. Costs no hash at all.
inline std::vector<TextKey> keys_of_one_crc(uint64_t n) {
  const std::vector<TextKey> kernel = crc_kernel();
  std::vector<TextKey> keys;
  for (uint64_t i = 0; i < n; i++) {
    TextKey key = text_key(uint64_t{1} << 50);
    for (unsigned bit = 0; bit < 40; bit++) {
      if (i >> bit & 1) key = {key[0] ^ kernel[bit][0], key[1] ^ kernel[bit][1]};
    }
    keys.push_back(key);
  }
  return keys;
}

}  // namespace weir::reproduce
