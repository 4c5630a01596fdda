#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/model/feed.h"
#include "control/policy/read/feed_file.h"

// These functions read a `file` that stands for several feeds.
namespace weir::control {

// `file` may stand for several feeds: a pattern (glob(7): `*`, `?`, `[...]`) or a folder.

constexpr size_t kMostFeedFiles = 254;  // Entry::source

// Whether it does. A file that is called so is one file, whatever its name.
bool stands_for_several(const std::string& path);

// The regular files that it stands for, by name; none: an empty vector. Of a folder: those in it, not in its folders,
// but for hidden ones and those that are not done (`~`, .new, .part, .swp, .tmp). Error: a folder cannot be read, or
// there are more than kMostFeedFiles.
Result<std::vector<std::string>> feed_names(const std::string& path);

// Folders in which a file may appear that it stands for. One that appears itself is not foreseen.
std::vector<std::string> feed_folders(const std::string& path);

// The same for the same names, and hardly for others.
FileIdentity identity_of(const std::vector<std::string>& names);

// read_feed() for a path that stands for several files (feed_names()). Each is a feed of its own:
// one that is refused, or cannot be read, keeps what the list had of it, and the others go on. Files that are gone take
// their entries with them, unless the list would shrink by more than its guard allows: then it keeps them. min_entries
// is asked of all together. What is unchanged is neither read nor sorted anew.
FeedOutcome read_feed_group(const FeedRequest& request, ListDraft own, uint64_t own_widened, const ListDraft& exempt,
                            const FeedHistory& history, List& list);

}  // namespace weir::control
