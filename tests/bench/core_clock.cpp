// Prints the clock of the core it runs on: {"ghz":..., "ns_per_add":...}. A chain of dependent additions takes one
// cycle each on every x86-64 core, so its time is the cycle; the TSC ticks at another rate. The summand is in a
// register: some cores fold additions of a constant away.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

int main() {
  constexpr uint64_t kRounds = 50'000;  // of 64 additions: about 1 ms, less than the kernel's time slices
  constexpr int kRuns = 200;            // the fastest run is one that nobody interrupted
  double best_ns = 1e9;
  for (int run = 0; run < kRuns; run++) {
    uint64_t chain = 0;
    const uint64_t step = 1;
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t round = 0; round < kRounds; round++) {
      asm volatile(".rept 64\n\tadd %1, %0\n\t.endr" : "+r"(chain) : "r"(step));
    }
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, spent.count() / static_cast<double>(kRounds * 64));
  }
  std::printf("{\"ghz\": %.3f, \"ns_per_add\": %.4f}\n", 1 / best_ns, best_ns);
}
