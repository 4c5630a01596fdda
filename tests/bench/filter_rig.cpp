#include "tests/bench/filter_rig.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace weir::bench {
namespace {

constexpr size_t kBigPage = size_t{2} << 20;

// Bytes of the mapping that /proc/self/smaps counts as transparent huge pages.
size_t transparent_bytes(const void* address, size_t size_bytes) {
  FILE* file = std::fopen("/proc/self/smaps", "r");
  if (file == nullptr) return 0;
  const auto first = reinterpret_cast<uintptr_t>(address);
  char line[512];
  bool inside = false;
  size_t kib = 0;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    uintptr_t from = 0, to = 0;
    size_t n = 0;
    if (std::sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2) {
      inside = from < first + size_bytes && to > first;
    } else if (inside && std::sscanf(line, "AnonHugePages: %zu kB", &n) == 1) {
      kib += n;
    }
  }
  std::fclose(file);
  return kib * 1024;
}

double clock_ns(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

double time_ns(const Loop& loop, uint64_t keys) {
  static volatile uint64_t sink = 0;
  const double start = thread_ns();
  const uint64_t sum = loop.work(keys);
  const double ns = thread_ns() - start;
  sink = sink + sum;
  return ns;
}

constexpr uint64_t kKeyUnit = 4096;

uint64_t keys_for(const Loop& loop, double sample_ms) {
  uint64_t keys = 16 * kKeyUnit;
  time_ns(loop, keys);
  const double ns = time_ns(loop, keys) / static_cast<double>(keys);
  keys = static_cast<uint64_t>(sample_ms * 1e6 / ns);
  return std::max<uint64_t>(1, keys / kKeyUnit) * kKeyUnit;
}

cpu_set_t& usable_at_start() {
  static cpu_set_t set = [] {
    cpu_set_t now;
    sched_getaffinity(0, sizeof now, &now);
    return now;
  }();
  return set;
}

}  // namespace

void give_up(const std::string& why) {
  std::fprintf(stderr, "filter bench: %s\n", why.c_str());
  std::exit(1);
}

BigMemory::BigMemory(size_t size_bytes) : size_(size_bytes) {
  const size_t whole = (size_bytes + kBigPage - 1) / kBigPage * kBigPage;
  constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, kAnonymous | MAP_HUGETLB | MAP_POPULATE, -1, 0);
  if (memory != MAP_FAILED) {
    mapping_ = Mapping(memory, whole);
    pages_ = "2 MiB (reserved)";
    return;
  }
  memory = mmap(nullptr, whole + kBigPage, PROT_READ | PROT_WRITE, kAnonymous, -1, 0);
  if (memory == MAP_FAILED) give_up("no memory for " + std::to_string(whole >> 20) + " MiB");
  const auto at = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (at + kBigPage - 1) / kBigPage * kBigPage;
  if (begin != at) munmap(memory, begin - at);
  if (begin + whole != at + whole + kBigPage) munmap(reinterpret_cast<void*>(begin + whole), at + kBigPage - begin);
  memory = reinterpret_cast<void*>(begin);
  madvise(memory, whole, MADV_HUGEPAGE);
  mapping_ = Mapping(memory, whole);
  std::memset(memory, 0, whole);
  const size_t big = transparent_bytes(memory, whole);
  const auto percent = static_cast<unsigned>(100 * big / whole);
  pages_ = percent >= 99  ? "2 MiB (transparent)"
           : percent == 0 ? "4 KiB"
                          : "2 MiB (" + std::to_string(percent) + " % transparent)";
}

void BigMemory::zero() const {
  std::memset(mapping_.bytes().data(), 0, mapping_.bytes().size());
}

double thread_ns() {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double process_ns() {
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

double wall_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}

void pin_to_one() {
  const cpu_set_t& usable = usable_at_start();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  sched_setaffinity(0, sizeof one, &one);
}

void unpin() {
  sched_setaffinity(0, sizeof(cpu_set_t), &usable_at_start());
}

std::vector<Series> alternate(const std::vector<Loop>& loops, unsigned rounds, double sample_ms) {
  std::vector<Series> series;
  std::vector<uint64_t> keys;
  for (const Loop& loop : loops) {
    series.push_back({loop.name, {}});
    keys.push_back(keys_for(loop, sample_ms));
  }
  for (unsigned round = 0; round < rounds; round++) {
    for (size_t turn = 0; turn < loops.size(); turn++) {
      const size_t i = round % 2 == 0 ? turn : loops.size() - 1 - turn;
      time_ns(loops[i], std::max(kKeyUnit, keys[i] / 2 / kKeyUnit * kKeyUnit));
      series[i].ns_per_key.push_back(time_ns(loops[i], keys[i]) / static_cast<double>(keys[i]));
    }
  }
  return series;
}

size_t fastest(const std::vector<Loop>& loops) {
  if (loops.size() == 1) return 0;
  const std::vector<Series> series = alternate(loops, 5, 6);
  size_t best = 0;
  for (size_t i = 1; i < series.size(); i++) {
    if (median(series[i].ns_per_key) < median(series[best].ns_per_key)) best = i;
  }
  return best;
}

double median(std::vector<double> values) {
  if (values.empty()) return NAN;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<double> net_ratios(const Series& a, const Series& a_net, const Series& b, const Series& b_net) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.ns_per_key.size(); i++) {
    ratios.push_back((a.ns_per_key[i] - a_net.ns_per_key[i]) / (b.ns_per_key[i] - b_net.ns_per_key[i]));
  }
  return ratios;
}

}  // namespace weir::bench
