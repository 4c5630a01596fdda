#pragma once

#include <cstdint>

// What layouts and kernels read and write.
namespace weir::filter {

constexpr unsigned kMaxBatch = 64;  // keys in one call; a hit mask is one 64-bit word

// A filter's bits, whatever their layout. Borrowed.
struct FilterBits {
  const uint8_t* bits = nullptr;
  uint32_t lines = 0;  // of 64 bytes; layouts of pages: a multiple of 64
  uint32_t k = 0;      // bits of a key, where the layout leaves it open (page2)
};

// A filter that is being written.
struct FilterWords {
  uint64_t* words = nullptr;
  uint32_t lines = 0;
  uint32_t k = 0;
};

}  // namespace weir::filter
