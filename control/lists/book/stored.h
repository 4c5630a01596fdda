#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/ip.h"
#include "common/result.h"
#include "control/policy/model/list.h"

namespace weir::control {

// Addresses that are asked about together: one, or both sides of a packet, or those of all its layers.
struct Addresses {
  std::vector<Ipv4> v4;
  std::vector<Ipv6> v6;
};

// Of a book in memory: its lists, and of their entries those that hold one of the addresses, and all flows.
Book part_holding(const Book& book, const Addresses& addresses);

// A book on disk, searched where it lies. Of ten million entries it reads those few that hold the addresses: some
// microseconds for a list of single addresses, up to a millisecond for a million ranges.
class StoredBook {
 public:
  // bytes: as write_book() wrote them, and not damaged since (their digest is right); they outlive it. Error: as of
  // read_book().
  static Result<StoredBook> open(std::span<const std::byte> bytes);
  StoredBook(StoredBook&&) noexcept;
  StoredBook& operator=(StoredBook&&) noexcept;
  ~StoredBook();

  // All but their entries.
  std::span<const List> lists() const { return lists_; }
  // Of one list the entries that hold one of the addresses, and all its flows and comments.
  std::shared_ptr<const Entries> holding(size_t list, const Addresses& addresses) const;
  // The same of every list.
  Book holding(const Addresses& addresses) const;

 private:
  struct Columns;
  StoredBook();

  std::vector<List> lists_;
  std::vector<Columns> columns_;  // of each list
};

}  // namespace weir::control
