#pragma once

#include "control/read/feeds/format.h"

namespace weir::control::feeds {

// One entry a line (DESIGN section 3, docs/use/policy.md): lines end at LF; ASCII blanks around them, a UTF-8 BOM at
// the start, and all after # or ; are dropped; the first word is the entry (a range may have blanks around its hyphen;
// a hyphen that no address follows begins a remark).
void read_plain(std::string_view text, const Options& options, ListDraft& list);

}  // namespace weir::control::feeds
