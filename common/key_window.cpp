#include "common/key_window.h"

#include <utility>

namespace weir {

namespace {

constexpr size_t kLeastSlots = 64;

// Bit 0: there is a key; bit 1: the filter let it through.
uint64_t mark_of(uint64_t hash, bool is_let_through) {
  return hash << 2 | (is_let_through ? 2u : 0u) | 1u;
}

}  // namespace

size_t KeyWindow::Half::slot_of(uint64_t mark) const {
  const size_t mask = slots.size() - 1;
  // The hash is uniform in its low bits, too.
  size_t slot = static_cast<size_t>(mark >> 2) & mask;
  while (slots[slot] != 0 && slots[slot] != mark) slot = (slot + 1) & mask;
  return slot;
}

void KeyWindow::Half::add(uint64_t mark) {
  if (2 * (used + 1) > slots.size()) {
    const std::vector<uint64_t> before = std::exchange(slots, {});
    slots.resize(before.empty() ? kLeastSlots : 2 * before.size());
    for (const uint64_t one : before) {
      if (one != 0) slots[slot_of(one)] = one;
    }
  }
  slots[slot_of(mark)] = mark;
  used++;
  keys++;
  if ((mark & 2) != 0) let_through++;
}

void KeyWindow::take(uint64_t hash, bool is_let_through) {
  const uint64_t mark = mark_of(hash, is_let_through);
  if (young_.has(mark)) return;
  if (old_.has(mark)) {  // counted as young from now on
    old_.keys--;
    if (is_let_through) old_.let_through--;
  }
  young_.add(mark);
  if (young_.used >= half_) turn();
}

void KeyWindow::age(uint64_t now_s) {
  if (young_.used == 0 || began_s_ == 0) began_s_ = now_s;
  if (now_s - began_s_ < kHalfSeconds) return;
  turn();
  began_s_ = now_s;
}

void KeyWindow::turn() {
  old_ = std::exchange(young_, {});
  began_s_ = 0;
}

}  // namespace weir
