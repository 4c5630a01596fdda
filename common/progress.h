#pragma once

#include <atomic>
#include <cstdint>

namespace weir {

// How far long work is, told by who does it and looked at by somebody else meanwhile. Nothing waits for anything; the
// fields may be of two moments.
struct Progress {
  std::atomic<const char*> phase{""};    // empty: there is no work
  std::atomic<const char*> unit{""};     // of what follows: entries, keys, bytes
  std::atomic<uint64_t> done{0}, of{0};  // of: 0 is not known

  void begin(const char* name, const char* its_unit = "", uint64_t all = 0) {
    done.store(0, std::memory_order_relaxed);
    of.store(all, std::memory_order_relaxed);
    unit.store(its_unit, std::memory_order_relaxed);
    phase.store(name, std::memory_order_relaxed);
  }
  void add(uint64_t n) { done.fetch_add(n, std::memory_order_relaxed); }
  void expect(uint64_t more) { of.fetch_add(more, std::memory_order_relaxed); }
};

// Counts without touching what others look at for each one. progress: null counts for nobody.
class ProgressCount {
 public:
  explicit ProgressCount(Progress* progress) : progress_(progress) {}
  ~ProgressCount() { tell(); }
  ProgressCount(const ProgressCount&) = delete;
  void one() {
    if (++n_ == kEach) tell();
  }

 private:
  static constexpr uint32_t kEach = 1 << 16;
  void tell() {
    if (progress_ != nullptr) progress_->add(n_);
    n_ = 0;
  }
  Progress* progress_;
  uint32_t n_ = 0;
};

}  // namespace weir
