#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/fd.h"

// Memory in 2 MiB pages, the thread's clock, and loops measured in turns.
namespace weir::bench {

[[noreturn]] void give_up(const std::string& why);  // to stderr, exit 1

// Zeroed memory in 2 MiB pages: reserved ones where there are enough, else transparent ones, else what there is. Every
// page is there already (no fault while something is measured).
class BigMemory {
 public:
  BigMemory() = default;
  explicit BigMemory(size_t size_bytes);

  std::span<std::byte> bytes() const { return {mapping_.bytes().data(), size_}; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(mapping_.bytes().data());
  }
  // What was got: "2 MiB (reserved)", "2 MiB (transparent)", "2 MiB (60 % transparent)", "4 KiB".
  const std::string& pages() const { return pages_; }
  void zero() const;

 private:
  Mapping mapping_;
  size_t size_ = 0;
  std::string pages_;
};

double thread_ns();   // CLOCK_THREAD_CPUTIME_ID: what others do on the core does not count
double process_ns();  // of all threads
double wall_ns();

// Binds this thread, and those it starts later, to one processor (of those it may use, the first), or to all again.
void pin_to_one();
void unpin();

// Does at least `keys` keys of work and returns something that depends on all of them.
using Work = std::function<uint64_t(uint64_t keys)>;
struct Loop {
  std::string name;
  Work work;
};
struct Series {
  std::string name;
  std::vector<double> ns_per_key;  // one a round
};

// Measures the loops in turns: every round one sample of each, in turning order, so that what disturbs one disturbs its
// neighbours. Each sample follows a run, not measured, that brings its own memory back into the caches.
std::vector<Series> alternate(const std::vector<Loop>& loops, unsigned rounds, double sample_ms);

// The loop with the smallest median; a short look.
size_t fastest(const std::vector<Loop>& loops);

double median(std::vector<double> values);

// Round by round (a - a_net) / (b - b_net).
std::vector<double> net_ratios(const Series& a, const Series& a_net, const Series& b, const Series& b_net);

}  // namespace weir::bench
