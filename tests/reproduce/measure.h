// Clock, memory, keys and progress of the programs that repeat the papers' experiments.
#pragma once

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/fd.h"

namespace weir::reproduce {

using Json = nlohmann::json;

// CPU time of this thread, ns: what else runs on the core does not count.
inline double thread_ns() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

inline void say(const std::string& text) {
  std::fprintf(stderr, "reproduce: %s\n", text.c_str());
}

[[noreturn]] inline void give_up(const std::string& why) {
  say(why);
  std::exit(1);
}

// Every program knows one option.
inline bool is_quick(int argc, char** argv) {
  return argc > 1 && std::string_view(argv[1]) == "--quick";
}

// splitmix64's finaliser (Steele, Lea, Flood 2014): a permutation, so counting gives distinct values. Key i's hash
// where an experiment asks for an ideal hash function at next to no cost.
constexpr uint64_t scatter(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Keys are numbers: members begin at 0, strangers here.
constexpr uint64_t kStrangers = uint64_t{1} << 40;

__extension__ typedef unsigned __int128 uint128;

// Range reduction of a 64-bit hash to 0..n-1. Lemire 2018, arXiv:1805.10941.
inline uint64_t reduce(uint64_t hash, uint64_t n) {
  return static_cast<uint64_t>((static_cast<uint128>(hash) * n) >> 64);
}

constexpr size_t kSmallPage = 4096, kHugePage = size_t{2} << 20;  // bytes

// Zeroed words on pages of one size, every page touched. Huge ones are reserved pages, else transparent ones.
class Words {
 public:
  Words(uint64_t n_bits, size_t page_bytes) : size_((n_bits / 8 + 64 + kHugePage - 1) & ~(kHugePage - 1)) {
    const int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* at = MAP_FAILED;
    if (page_bytes == kHugePage) at = mmap(nullptr, size_, protection, flags | MAP_HUGETLB, -1, 0);
    if (at != MAP_FAILED) {
      mapping_ = Mapping(at, size_);
      words_ = static_cast<uint64_t*>(at);
    } else {
      at = mmap(nullptr, size_ + kHugePage, protection, flags, -1, 0);
      if (at == MAP_FAILED) give_up("no memory");
      mapping_ = Mapping(at, size_ + kHugePage);
      const auto aligned = (reinterpret_cast<uintptr_t>(at) + kHugePage - 1) & ~(kHugePage - 1);
      words_ = reinterpret_cast<uint64_t*>(aligned);
      madvise(words_, size_, page_bytes == kHugePage ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
    clear();
  }
  void clear() { std::fill_n(words_, size_ / 8, uint64_t{0}); }
  uint64_t* get() const { return words_; }

 private:
  size_t size_;
  Mapping mapping_;
  uint64_t* words_ = nullptr;
};

// For functions that only prefetch: g++ 12 takes them for functions without effect and removes the calls, unless they
// are inlined before it looks.
#define REPRODUCE_KEPT [[gnu::always_inline]] inline

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One way of doing the work that is compared with the others.
struct Variant {
  std::string name;
  std::function<uint64_t()> run;  // its result only keeps the work from being optimised away
};

// Median ns per item of each variant. A repetition runs all of them, so that what disturbs one disturbs its neighbours.
inline std::vector<double> paired_ns(unsigned repetitions, uint64_t items, std::span<const Variant> variants) {
  std::vector<std::vector<double>> runs(variants.size());
  for (unsigned r = 0; r < repetitions; r++) {
    for (size_t v = 0; v < variants.size(); v++) {
      const double start = thread_ns();
      volatile uint64_t sink = variants[v].run();
      (void)sink;
      runs[v].push_back((thread_ns() - start) / static_cast<double>(items));
    }
  }
  std::vector<double> medians;
  for (auto& of_variant : runs) medians.push_back(median(std::move(of_variant)));
  return medians;
}

}  // namespace weir::reproduce
