#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

// Which sources send most, in a memory of fixed size.
namespace weir::dataplane {

// A Misra-Gries summary (Misra and Gries, "Finding repeated elements", 1982): every source that has more than
// 1/(kSlots + 1) of the weight is in it, and none has more weight here than it really has, nor less by more than that
// share of all. One writer, any number of readers.
class HeavySources {
 public:
  static constexpr uint32_t kSlots = 16;

  struct Source {
    uint64_t address;
    uint64_t weight;  // above 0
  };

  // weight: above 0. At most kSlots comparisons, and as many subtractions.
  void add(uint64_t address, uint64_t weight) noexcept;
  // Every weight becomes 2^times times less, times <= 63.
  void halve(unsigned times) noexcept;
  // Those that weigh most first. Of a source that takes the place of another just now, either is told, or none.
  std::vector<Source> read() const;

 private:
  struct Slot {
    std::atomic<uint64_t> address = 0;
    std::atomic<uint64_t> weight = 0;  // 0: free
  };
  Slot slots_[kSlots];
};

}  // namespace weir::dataplane
