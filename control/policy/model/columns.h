#pragma once

#include <memory>
#include <tuple>

#include "control/policy/model/list.h"

// Entries as they were read become sorted columns, and back.
namespace weir::control {

// The order of Rows.
template <class Addr>
bool comes_before(const Entry<Addr>& a, const Entry<Addr>& b) {
  if (a.first != b.first) return a.first < b.first;
  const auto rest = [](const Entry<Addr>& entry) {
    return std::make_tuple(entry.last, entry.port, entry.directions, entry.expires, entry.source, entry.line);
  };
  return rest(a) < rest(b);
}

// Sorts and packs all of the draft; its `feed` and `match` are not looked at. Takes n log n for IPv6, n for IPv4.
std::shared_ptr<const Entries> make_entries(ListDraft draft);

// Ascending by line, as Entries has them.
void sort_by_line(std::vector<EntryComment>& comments);

// The same entries in the order in which they are written.
ListDraft draft_of(const Entries& entries);

// The feed's entries of `before`, and these of the policy file instead of its own. `before` itself when they are the
// same, lines included: then with what the journal added, else without.
std::shared_ptr<const Entries> replace_own(std::shared_ptr<const Entries> before, ListDraft own);

// What holds for every Rows, however it came about: lengths agree, rows ascend, ranges are ranges, values are in their
// bounds. For rows from disk.
template <class Addr>
bool is_sound(const Rows<Addr>& rows);

// Fills `reach` from the other columns.
template <class Addr>
void index_ranges(Rows<Addr>& rows);

// XXH3-128 of what the entries match.
std::array<uint64_t, 2> digest_of(const Entries& entries);

}  // namespace weir::control
