#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/policy/model/list.h"

namespace weir::control {

// What became of one list's entries: by what they match. An entry that is written more often, elsewhere or in another
// order is no difference.
struct Difference {
  struct Part {
    std::vector<Entry<Ipv4>> v4;
    std::vector<Entry<Ipv6>> v6;
    std::vector<Flow> flows;
  };
  Part added;    // of `after`, each once
  Part removed;  // of `before`, each once
};

// One walk over both.
Difference difference(const Entries& before, const Entries& after);

// How many they are; takes no memory for them.
struct DifferenceCount {
  uint64_t added = 0, removed = 0;
};
DifferenceCount count_difference(const Entries& before, const Entries& after);

// What became of one list, by its name.
struct ListChange {
  std::string name;
  std::string state;     // new, gone, changed
  uint64_t entries = 0;  // now
  uint64_t added = 0, removed = 0;
};
// The lists that are not as they were: in the order of `after`, then those that are gone.
std::vector<ListChange> list_changes(const Book& before, const Book& after);

}  // namespace weir::control
