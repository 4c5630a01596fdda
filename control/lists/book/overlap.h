#pragma once

#include <cstdint>
#include <vector>

#include "control/policy/model/list.h"

namespace weir::control {

// How much of what a list holds, other lists hold too, at one time: entries that have ended are in none. What "holds"
// means: docs/operate/lists.md, "What one list holds of another".
struct Overlap {
  struct Share {
    uint64_t entries = 0;
    uint64_t addresses = 0;  // IPv4, of entries without a port, each once
    bool operator==(const Share&) const = default;
  };
  struct Row {
    Share all;                   // of this list
    Share unique;                // of them, what no list holds that would do the same in its place
    std::vector<Share> held_by;  // of them, by list in the order of the book; by itself: nothing
    bool operator==(const Row&) const = default;
  };
  std::vector<Row> lists;  // in the order of the book
};

// now: Unix seconds. One walk over the rows of all lists: n log(lists), and for each entry the lists that hold its
// addresses, too. Takes memory for lists squared, and for what is nested at one address.
Overlap overlap_of(const Book& book, uint64_t now);

// Whether `by` in the place of `list` would do the same to packets: passes them, or drops them by an enforced list.
bool would_stand_in(const List& by, const List& list);

}  // namespace weir::control
