#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir {

// The different absent keys that a filter was asked for of late, and which of them it let through.
//
// Traffic repeats itself: a flow that happens to be a false positive is one with each of its packets, so packets are no
// trials of their own. Different keys are: a key's place is a keyed hash, so that of keys which were chosen without
// knowledge of the secret, and whatever their weight in the traffic, each is let through with the filter's rate,
// independently of the others. The sample must not look at the outcome either.
//
// Two halves: what is new goes into the younger one; when that is full, or old, the older one is forgotten.
class KeyWindow {
 public:
  static constexpr size_t kHalf = 16384;         // keys; a rate of 0.4 % is known to a sixth then (95 %)
  static constexpr uint64_t kHalfSeconds = 300;  // of age

  explicit KeyWindow(size_t half = kHalf) : half_(half) {}

  // hash: of the key, uniform; its low 62 bits tell keys apart.
  void take(uint64_t hash, bool is_let_through);
  // now_s: of a clock that never goes back.
  void age(uint64_t now_s);

  uint64_t keys() const { return young_.keys + old_.keys; }
  uint64_t let_through() const { return young_.let_through + old_.let_through; }

 private:
  // Open addressing, at most half full; 0 is an empty slot.
  struct Half {
    std::vector<uint64_t> slots;
    size_t used = 0;
    uint64_t keys = 0, let_through = 0;  // of the older half: those that have not come again

    bool has(uint64_t mark) const { return !slots.empty() && slots[slot_of(mark)] == mark; }
    void add(uint64_t mark);
    size_t slot_of(uint64_t mark) const;  // where it is, or belongs
  };
  void turn();

  size_t half_;
  Half young_, old_;
  uint64_t began_s_ = 0;  // the younger half
};

}  // namespace weir
