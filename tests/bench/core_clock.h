#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace weir::bench {

// The time of a cycle of the core that this runs on. A chain of dependent additions takes one cycle each on every
// x86-64 core; the TSC ticks at another rate. The summand is in a register: some cores fold additions of a constant
// away. The fastest of the runs, about 1 ms each, is one that nobody interrupted.
inline double cycle_ns(int runs) {
  constexpr uint64_t kRounds = 50'000;  // of 64 additions: about 1 ms, less than the kernel's time slices
  double best_ns = 1e9;
  for (int run = 0; run < runs; run++) {
    uint64_t chain = 0;
    const uint64_t step = 1;
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t round = 0; round < kRounds; round++) {
      asm volatile(".rept 64\n\tadd %1, %0\n\t.endr" : "+r"(chain) : "r"(step));
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, spent.count() / static_cast<double>(kRounds * 64));
  }
  return best_ns;
}

}  // namespace weir::bench
