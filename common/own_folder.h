#pragma once

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"

// Folders in which a program believes what it finds: its sockets, its state, its pinned maps.
namespace weir {

// Error, with owner or mode and the way out: somebody else may write the folder, or could have put another one in its
// place. It, and each folder and link on the way to it, must belong to root, to our own user or to one of `others`, and
// nobody else may write it. What lies in a sticky folder that everybody may write, as /tmp is, must be root's or ours.
// option: of the command line, that chooses another folder.
Result<void> check_own_folder(const std::string& path, const char* option, std::span<const uid_t> others = {});

// mkdir -p, and the check, of what is there before anything is made. Folders that it makes get the mode.
Result<void> make_own_folder(const std::string& path, unsigned mode, const char* option,
                             std::span<const uid_t> others = {});

// The names of all files in a folder, in no order, without "." and "..". Error: the folder cannot be read to its end.
Result<std::vector<std::string>> names_in(const std::string& folder);

// One process at a time has a folder, as long as its FolderLock lives. It is the folder itself that is locked: that
// needs no writing, and what a full or read-only disk holds is enforced. So is the file `lock` in it, where it can be
// had: versions before this one look at nothing else. Empty: another process has it.
struct FolderLock {
  Fd folder, file;
};
Result<std::optional<FolderLock>> lock_folder(const std::string& path);

// "mallory (1001)", "1001" of a user without a name.
std::string user_text(uid_t uid);

}  // namespace weir
