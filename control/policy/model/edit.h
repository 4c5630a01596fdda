#pragma once

#include <memory>

#include "control/policy/model/list.h"

// Some entries more, some fewer, in one pass over the columns: nothing is sorted again.
namespace weir::control {

// What becomes of the entries of one list.
struct EntriesEdit {
  ListDraft added, removed;

  bool empty() const { return added.entries() == 0 && removed.entries() == 0; }
};

// An entry that is added and removed is as it was. One that is removed, and is not there, is passed over; of several
// equal ones, one goes for each. Comments of what is added come in. `before` itself when nothing changes.
std::shared_ptr<const Entries> edited(std::shared_ptr<const Entries> before, EntriesEdit edit);

// What the journal put into it.
ListDraft journal_part(const Entries& entries);

// The entries of the policy file and the feeds, and these of the journal instead of those that are there. `before`
// itself when they are the same.
std::shared_ptr<const Entries> with_journal(std::shared_ptr<const Entries> before, ListDraft journal);

}  // namespace weir::control
