// What one random bit of a gate's table costs, by the table's size: asked for with a burst of 64 others, read a burst
// later, as a worker does. gate_access_ns (control/compile/plan/gates.h) has these numbers, less those of the smallest
// table, which lies in L1.
//
//   bench_gates --benchmark_repetitions=20 --benchmark_report_aggregates_only=true
//
// Counter: ns of one access, its random address included. Take the least of several runs: others only ever add.

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <chrono>
#include <cstdint>
#include <cstring>

#include "common/fd.h"
#include "common/memory.h"
#include "common/prefetch.h"
#include "filter/format/gate.h"

namespace weir::bench {
namespace {

constexpr unsigned kBurst = 64;

uint64_t next_random(uint64_t& state) {  // splitmix64 (Steele, Lea, Flood 2014)
  uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void access(benchmark::State& state) {
  const auto index_bits = static_cast<uint32_t>(state.range(0));
  const size_t size_bytes = size_t{1} << index_bits >> 3;
  Mapping memory = map_anonymous(size_bytes, 0);
  if (!memory) return state.SkipWithError("no memory");
  madvise(memory.bytes().data(), size_bytes, MADV_HUGEPAGE);
  memset(memory.bytes().data(), 0x5a, size_bytes);
  const auto* bits = reinterpret_cast<const uint64_t*>(memory.bytes().data());
  uint32_t index[2][kBurst] = {};
  uint64_t random = 1, set = 0, burst = 0;
  for (auto _ : state) {
    uint32_t* const asked = index[burst % 2];
    const uint32_t* const read = index[++burst % 2];
    for (unsigned i = 0; i < kBurst; i++) {
      asked[i] = static_cast<uint32_t>(next_random(random) >> (64 - index_bits));
      filter::prefetch_line(bits + (asked[i] >> 6));
    }
    for (unsigned i = 0; i < kBurst; i++) set += bits[read[i] >> 6] >> (read[i] & 63) & 1;
  }
  benchmark::DoNotOptimize(set);
  state.counters["ns"] = benchmark::Counter(static_cast<double>(state.iterations()) * kBurst / 1e9,
                                            benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(access)->Name("gate/access/bits")->DenseRange(15, 30);

}  // namespace
}  // namespace weir::bench

BENCHMARK_MAIN();
