#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace weir::dataplane {

// Samples on their way from one worker to the control thread; made before the worker runs, never grows.
template <class Slot, uint64_t n_slots>
class Ring {
 public:
  static constexpr uint64_t kSlots = n_slots;

  Ring() : slots_(new Slot[kSlots]) {}

  // Worker: the slot to fill, null when there is none; push() gives it away.
  Slot* free_slot() noexcept {
    const uint64_t pushed = pushed_.load(std::memory_order_relaxed);
    const bool full = pushed - popped_.load(std::memory_order_acquire) == kSlots;
    return full ? nullptr : &slots_[pushed % kSlots];
  }
  void push() noexcept { pushed_.store(pushed_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Control thread: the oldest one, null when there is none; pop() gives its slot back.
  Slot* front() noexcept {
    const uint64_t popped = popped_.load(std::memory_order_relaxed);
    return pushed_.load(std::memory_order_acquire) == popped ? nullptr : &slots_[popped % kSlots];
  }
  void pop() noexcept { popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  // Either.
  uint32_t size() const noexcept {
    const uint64_t popped = popped_.load(std::memory_order_relaxed);
    return static_cast<uint32_t>(pushed_.load(std::memory_order_acquire) - popped);
  }

 private:
  std::unique_ptr<Slot[]> slots_;
  alignas(64) std::atomic<uint64_t> pushed_ = 0;
  alignas(64) std::atomic<uint64_t> popped_ = 0;
};

}  // namespace weir::dataplane
