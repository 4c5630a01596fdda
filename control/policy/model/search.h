#pragma once

#include <algorithm>
#include <cstddef>

#include "control/policy/model/entry.h"

namespace weir::control {

// Visits every row that holds the address, in any order: visit(row). A search: of n rows it looks at some log n for
// each that it finds.
template <class Addr, class Visit>
void visit_rows(const Rows<Addr>& rows, Addr address, Visit visit) {
  const auto end =
      static_cast<size_t>(std::upper_bound(rows.first.begin(), rows.first.end(), address) - rows.first.begin());
  if (rows.last.empty()) {
    for (size_t row = end; row > 0 && rows.first[row - 1] == address; row--) visit(row - 1);
    return;
  }
  // Down the levels of `reach`: whole groups whose greatest `last` lies before the address are left out.
  const auto descend = [&](const auto& self, size_t level, size_t index) -> void {
    if (level == 0) {
      if (index < end && rows.last[index] >= address) visit(index);
      return;
    }
    size_t rows_of_one = 1;
    for (size_t k = 0; k < level; k++) rows_of_one *= rows.kFan;
    if (index * rows_of_one >= end || rows.reach[level - 1][index] < address) return;
    const size_t below = level == 1 ? rows.last.size() : rows.reach[level - 2].size();
    for (size_t i = index * rows.kFan; i < std::min((index + 1) * rows.kFan, below); i++) self(self, level - 1, i);
  };
  descend(descend, rows.reach.size(), 0);
}

}  // namespace weir::control
