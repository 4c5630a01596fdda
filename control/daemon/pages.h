#pragma once

#include <chrono>
#include <deque>
#include <memory>

#include "common/wire.h"
#include "control/loop/loop.h"
#include "control/model/list.h"

namespace weir::control {

// Books that somebody reads page by page stay for a while, so that all pages are of one generation.
class PagedBooks {
 public:
  struct Kept {
    wire::Generation generation;
    std::shared_ptr<const Book> book;
    Clock::time_point used;
  };
  // The book of this number; 0: that which runs, which is kept from now on. Null: it is not kept any more.
  const Kept* book(uint64_t number, wire::Generation running, const std::shared_ptr<const Book>& book_of_running);

 private:
  static constexpr size_t kMost = 4;
  static constexpr std::chrono::seconds kFor{60};
  std::deque<Kept> kept_;
};

}  // namespace weir::control
