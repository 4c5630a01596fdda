#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "control/policy/model/list.h"
#include "control/policy/model/search.h"

// Which entry of a list holds all of another entry?
namespace weir::control {

struct HolderSearch {
  bool of_files_alone = false;  // entries that `controlctl add` put into the list are left out
  bool on_all_sides = false;  // it is compared with each side that the wanted entry is compared with; else one will do
  uint64_t until = 0;         // Unix seconds: an entry that ends earlier is left out
};

// Some row that holds the addresses and the port of the wanted entry. Empty: none does.
template <class Addr>
std::optional<Entry<Addr>> holder_among(const Rows<Addr>& rows, const Entry<Addr>& wanted, const HolderSearch& search) {
  std::optional<Entry<Addr>> found;
  visit_rows(rows, wanted.first, [&](size_t row) {
    const Entry<Addr> entry = rows[row];
    if (entry.last < wanted.last || (entry.port != 0 && entry.port != wanted.port)) return;
    const uint8_t common = entry.sides() & wanted.sides();
    if (common == 0 || (search.on_all_sides && common != wanted.sides())) return;
    if (search.of_files_alone && entry.source == kJournalSource) return;
    if (entry.expires >= search.until) found = entry;
  });
  return found;
}

// As people are shown it: "203.0.113.0/24 (feeds/c2.txt:17)". Empty: no entry of the list does. wanted: one entry. A
// flow is held by the same flow, or by addresses that hold its source or destination; it takes a pass over the list's
// flows.
std::string holder_of(const List& list, const ListDraft& wanted, const HolderSearch& search);

// The same among the own addresses, for an entry of a drop list. Empty, too: `own` is not cut out of such entries.
std::string own_holder_of(const Own& own, const ListDraft& wanted);

}  // namespace weir::control
