#pragma once

#include "control/policy/read/feed_file.h"

namespace weir::control {

// read_feed() for a path that stands for several files (control/policy/read/feed_names.h). Each is a feed of its own:
// one that is refused, or cannot be read, keeps what the list had of it, and the others go on. Files that are gone take
// their entries with them, unless the list would shrink by more than its guard allows: then it keeps them. min_entries
// is asked of all together. What is unchanged is neither read nor sorted anew.
FeedOutcome read_feed_group(const FeedRequest& request, ListDraft own, uint64_t own_widened, const ListDraft& exempt,
                            const FeedHistory& history, List& list);

}  // namespace weir::control
