#include "control/daemon/pages.h"

#include <algorithm>

namespace weir::control {
namespace {

std::vector<PagedBooks::Kept>::iterator least_used(std::vector<PagedBooks::Kept>& kept) {
  return std::min_element(kept.begin(), kept.end(), [](const auto& a, const auto& b) { return a.used < b.used; });
}

}  // namespace

const PagedBooks::Kept* PagedBooks::book(uint64_t number, wire::Generation running,
                                         const std::shared_ptr<const Book>& book_of_running) {
  drop_old();
  const auto find = [&](uint64_t wanted) {
    return std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) { return one.generation.number == wanted; });
  };
  auto found = find(number == 0 ? running.number : number);
  if (found == kept_.end() && number != 0) return nullptr;
  if (found == kept_.end()) {
    if (kept_.size() == kMost) kept_.erase(least_used(kept_));
    kept_.push_back({running, book_of_running, {}});
    found = kept_.end() - 1;
  }
  found->used = Clock::now();
  due_ = loop_.timer(least_used(kept_)->used + keep_, [this] { drop_old(); });
  return &*found;
}

// Also when nobody asks any more: a book may be most of what controld has in memory.
void PagedBooks::drop_old() {
  const Clock::time_point now = Clock::now();
  std::erase_if(kept_, [&](const Kept& one) { return one.used + keep_ <= now; });
  if (!kept_.empty()) due_ = loop_.timer(least_used(kept_)->used + keep_, [this] { drop_old(); });
}

}  // namespace weir::control
