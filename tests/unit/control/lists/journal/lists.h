// A journal, a list whose entries it keeps, and changes of them.
#pragma once

#include "control/lists/journal/change.h"
#include "control/policy/model/columns.h"
#include "tests/unit/control/support/support.h"

namespace weir::control {

constexpr uint64_t kNow = 1'800'000'000;

inline List dynamic_list(const std::string& name) {
  List list;
  list.name = name;
  list.policy_path = "weir.yaml";
  list.dynamic = Dynamic{};
  return list;
}

inline Journal open(const Folder& folder) {
  Result<Journal> journal = Journal::open(folder / "");
  REQUIRE(journal);
  return std::move(*journal);
}

inline Change change(Change::Verb verb, std::vector<std::string> entries) {
  Change change;
  change.verb = verb;
  change.entries = std::move(entries);
  change.uid = 42;
  change.comment = "ticket 12";
  return change;
}

// In a transaction of its own; the list gets what became of it.
inline Result<ChangeCounts> make(Journal& journal, List& list, const Change& wanted, uint64_t now = kNow) {
  EntriesEdit edit;
  REQUIRE(journal.begin({7, 1}));
  const Result<ChangeCounts> counts = apply(wanted, list, now, journal, edit);
  if (!counts) {
    journal.roll_back();
    return counts;
  }
  REQUIRE(journal.commit());
  list.content = edited(list.content, std::move(edit));
  // The content is what the journal alone would make of it.
  const Result<ListDraft> kept = journal_of(list, 0, journal);
  REQUIRE(kept);
  const auto alone = make_entries(*kept);
  CHECK(alone->v4 == list.content->v4);
  CHECK(alone->v6 == list.content->v6);
  CHECK(alone->flows.size() == list.content->flows.size());
  return counts;
}

inline std::string error_of(Journal& journal, List& list, const Change& wanted) {
  const auto counts = make(journal, list, wanted);
  return counts ? "" : counts.error();
}

}  // namespace weir::control
