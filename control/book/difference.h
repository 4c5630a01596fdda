#pragma once

#include <vector>

#include "control/model/list.h"

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

}  // namespace weir::control
