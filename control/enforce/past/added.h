#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "control/lists/book/stored.h"
#include "control/lists/journal/journal.h"

// What `controlctl add` had put into lists at some time.
namespace weir::control {

struct Added {
  std::string list;
  JournalEntry entry;      // as it was then
  ListDraft content = {};  // what its list holds of it
  uint64_t since = 0;      // the generation that added it; 0: not known
  uint64_t until = 0;      // the first one without it; 0: it is still there
};

// The entries that hold one of the addresses, and those with more fields, which generation `then` had. base: that of
// the generation (GenerationRecord::base), whose changes since then the journal knows. lists: of that time, for how
// they read entries; runs: the book that is enforced now. Looks at each change since the base.
Result<std::vector<Added>> added_then(wire::Generation then, uint64_t base, const Book& lists, const Book& runs,
                                      const Addresses& addresses, Journal& journal, const GivenUp& is_given_up = {});

}  // namespace weir::control
