#pragma once

namespace weir::filter {

// Asks for a cache line. The empty asm keeps the call: g++ 12 takes a function or lambda that only prefetches for one
// without effect, and drops the calls to it.
[[gnu::always_inline]] static inline void prefetch_line(const void* at) {
  __builtin_prefetch(at);
  asm volatile("");
}
[[gnu::always_inline]] static inline void prefetch_line_to_write(const void* at) {
  __builtin_prefetch(at, 1);
  asm volatile("");
}

}  // namespace weir::filter
