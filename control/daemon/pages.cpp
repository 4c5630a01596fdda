#include "control/daemon/pages.h"

#include <algorithm>

namespace weir::control {

const PagedBooks::Kept* PagedBooks::book(uint64_t number, wire::Generation running,
                                         const std::shared_ptr<const Book>& book_of_running) {
  const Clock::time_point now = Clock::now();
  std::erase_if(kept_, [&](const Kept& one) { return one.used + kFor < now; });
  const auto find = [&](uint64_t wanted) {
    return std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.generation.number == wanted; });
  };
  auto found = find(number == 0 ? running.number : number);
  if (found == kept_.end() && number != 0) return nullptr;
  if (found == kept_.end()) {
    if (kept_.size() == kMost) kept_.pop_front();
    kept_.push_back({running, book_of_running, now});
    found = kept_.end() - 1;
  }
  found->used = now;
  return &*found;
}

}  // namespace weir::control
