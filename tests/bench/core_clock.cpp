// Prints the clock of the core it runs on: {"ghz":..., "ns_per_add":...}.
#include "tests/bench/core_clock.h"

#include <cstdio>

int main() {
  const double ns = weir::bench::cycle_ns(200);
  std::printf("{\"ghz\": %.3f, \"ns_per_add\": %.4f}\n", 1 / ns, ns);
}
