#pragma once

#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/model/feed.h"

// `file` may stand for several feeds: a pattern (glob(7): `*`, `?`, `[...]`) or a folder.
namespace weir::control {

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

}  // namespace weir::control
