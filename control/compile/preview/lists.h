#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/lists/book/difference.h"
#include "control/policy/model/list.h"

// What a change of the lists is, entry by entry, and what of it deserves a second look.
namespace weir::control {

struct PlacedEntry {
  std::string entry;  // in canonical text
  std::string file;   // the policy, the feed, or controlctl add
  uint32_t line = 0;  // 0: of what was added
};

struct ListPreview {
  ListChange change;
  std::string how;  // what else is different: "mode: enforce, was monitor"; empty: nothing
  // The first few, by address.
  std::vector<PlacedEntry> added, removed;
};

// New entries of one list that block what one should know of.
struct Concern {
  std::string list;  // that has them
  std::string kind;  // pass list, reserved, popular
  std::string what;  // the pass list, the reserved block, whose network
  uint64_t entries = 0;
  PlacedEntry first;
};

struct WideEntry {
  std::string list;
  PlacedEntry entry;
  double addresses = 0;
};

struct ListsPreview {
  std::vector<ListPreview> lists;
  std::vector<WideEntry> widest;  // new entries of lists that drop, widest first; no single addresses
  std::vector<Concern> concerns;
};

// after: of the candidate.
ListsPreview preview_lists(const Book& before, const Book& after);

}  // namespace weir::control
