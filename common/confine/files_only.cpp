#include "common/confine/files_only.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/fd.h"
#include "common/files.h"

namespace weir::confine {

namespace {

// All that the first version of Landlock knows, so that each kernel that has any forbids it: LANDLOCK_ACCESS_FS_*.
constexpr uint64_t kOfFirstVersion = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;

}  // namespace

Result<void> read_only_these(std::span<const char* const> paths) {
  landlock_ruleset_attr all = {};
  all.handled_access_fs = kOfFirstVersion;
  const Fd rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0)));
  if (!rules) return errno_error("cannot make rules for files");
  for (const char* path : paths) {
    const Fd place(open(path, O_PATH | O_CLOEXEC));
    struct stat status = {};
    if (!place || fstat(place.get(), &status) != 0) continue;
    landlock_path_beneath_attr beneath = {};
    beneath.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
    if (S_ISDIR(status.st_mode)) beneath.allowed_access |= LANDLOCK_ACCESS_FS_READ_DIR;
    beneath.parent_fd = place.get();
    if (syscall(SYS_landlock_add_rule, rules.get(), LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) != 0) {
      return errno_error(std::string("cannot make a rule for ") + path);
    }
  }
  if (syscall(SYS_landlock_restrict_self, rules.get(), 0) != 0)
    return errno_error("cannot keep to the rules for files");
  return {};
}

}  // namespace weir::confine
