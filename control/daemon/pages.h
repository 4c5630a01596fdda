#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "common/wire.h"
#include "control/base/loop/loop.h"
#include "control/policy/model/list.h"

namespace weir::control {

// Books that somebody reads page by page stay for a while, so that all pages are of one generation.
class PagedBooks {
 public:
  // keep: after the last page was asked for.
  explicit PagedBooks(Loop& loop, Clock::duration keep = std::chrono::seconds(60)) : loop_(loop), keep_(keep) {}
  struct Kept {
    wire::Generation generation;
    std::shared_ptr<const Book> book;
    Clock::time_point used;
  };
  // The book of this number; 0: that which runs, which is kept from now on. Null: it is not kept any more.
  const Kept* book(uint64_t number, wire::Generation running, const std::shared_ptr<const Book>& book_of_running);

 private:
  static constexpr size_t kMost = 4;
  void drop_old();

  Loop& loop_;
  const Clock::duration keep_;
  std::vector<Kept> kept_;
  Loop::Source due_;  // drop_old()
};

}  // namespace weir::control
