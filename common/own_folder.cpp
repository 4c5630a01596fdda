#include "common/own_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "common/files.h"

namespace weir {

namespace {

constexpr int kMaxLinks = 40;  // as the kernel follows (path_resolution(7))

std::string octal(mode_t mode) {
  char text[8];
  snprintf(text, sizeof text, "%04o", mode & 07777u);
  return text;
}

// Users have groups of their own on some systems, whose folders they make writable for it (Ubuntu's umask is 002).
bool is_own_group(gid_t gid) {
  if (gid == 0) return true;
  if (gid != getegid()) return false;
  const group* entry = getgrgid(gid);
  if (entry == nullptr || entry->gr_mem == nullptr || *entry->gr_mem != nullptr) return false;
  const std::string name = entry->gr_name;
  const passwd* user = getpwuid(geteuid());
  return user != nullptr && name == user->pw_name;
}

bool others_may_write(const struct stat& status) {
  return (status.st_mode & S_IWOTH) != 0 || ((status.st_mode & S_IWGRP) != 0 && !is_own_group(status.st_gid));
}

// From the root folder down, one name after the other, links followed by hand.
class Walk {
 public:
  Walk(const char* option, std::span<const uid_t> others) : option_(option), others_(others) {}

  // is_on_the_way: something is to be made in the folder.
  Result<void> to(const std::string& path, bool is_on_the_way) {
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(path, error);
    if (error) return Error{"cannot tell where " + path + " is: " + error.message()};
    push(whole.relative_path());
    if (Result<void> root = enter("/"); !root) return root;
    while (!left_.empty()) {
      if (Result<void> done = step(); !done) return done;
    }
    if (is_open_ && !is_on_the_way) return writable_by_others();  // sticky: fine on the way, not for the folder itself
    return {};
  }

 private:
  void push(const std::filesystem::path& names) {
    std::vector<std::string> more;
    for (const std::filesystem::path& name : names) more.push_back(name.string());
    left_.insert(left_.end(), more.rbegin(), more.rend());
  }

  Result<void> step() {
    const std::string name = left_.back();
    left_.pop_back();
    if (name.empty() || name == ".") return {};
    if (name == "..") return enter_again(std::filesystem::path(at_).parent_path().string());
    const std::string next = at_ == "/" ? at_ + name : at_ + "/" + name;
    struct stat status = {};
    if (lstat(next.c_str(), &status) != 0) return errno_error("cannot look at " + next);
    if (!S_ISLNK(status.st_mode)) return enter(next);
    if (!is_trusted(status.st_uid)) return foreign("the link " + next, status.st_uid);
    if (++links_ > kMaxLinks) return Error{next + ": too many links"};
    std::error_code error;
    const std::filesystem::path target = std::filesystem::read_symlink(next, error);
    if (error) return Error{"cannot read the link " + next + ": " + error.message()};
    push(target.relative_path());
    return target.is_absolute() ? enter_again("/") : Result<void>();
  }

  // What was on the way already: it does not lie in the one we come from.
  Result<void> enter_again(const std::string& folder) {
    is_open_ = false;
    return enter(folder);
  }

  Result<void> enter(const std::string& folder) {
    struct stat status = {};
    if (lstat(folder.c_str(), &status) != 0) return errno_error("cannot look at " + folder);
    if (!S_ISDIR(status.st_mode)) return Error{folder + " is not a folder"};
    if (!is_trusted(status.st_uid)) return foreign("the folder " + folder, status.st_uid);
    at_ = folder;
    mode_ = status.st_mode;
    is_open_ = others_may_write(status);
    if (is_open_ && (status.st_mode & S_ISVTX) == 0) return writable_by_others();
    return {};
  }

  // What lies in a folder that everybody may write was put there by whoever owns it.
  bool is_trusted(uid_t owner) const {
    if (owner == 0 || owner == geteuid()) return true;
    return !is_open_ && std::find(others_.begin(), others_.end(), owner) != others_.end();
  }

  Error foreign(const std::string& what, uid_t owner) const {
    return Error{what + " belongs to user " + user_text(owner) + ", who could put other files in the place of ours: " +
                 "take it away or give it to " + user_text(geteuid()) + ", or name another folder with " + option_};
  }

  Error writable_by_others() const {
    return Error{"the folder " + at_ + " has mode " + octal(mode_) +
                 ": other users could put files in the place of ours: chmod go-w " + at_ +
                 ", or name another folder with " + option_};
  }

  const char* const option_;
  const std::span<const uid_t> others_;
  std::vector<std::string> left_;  // the next one last
  std::string at_;
  mode_t mode_ = 0;
  bool is_open_ = false;  // others may write at_
  int links_ = 0;
};

// False: another process has it.
Result<bool> lock(const Fd& fd, const std::string& path) {
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return errno_error("cannot lock " + path);
}

}  // namespace

std::string user_text(uid_t uid) {
  const passwd* user = getpwuid(uid);
  const std::string number = std::to_string(uid);
  return user == nullptr ? number : std::string(user->pw_name) + " (" + number + ")";
}

Result<void> check_own_folder(const std::string& path, const char* option, std::span<const uid_t> others) {
  return Walk(option, others).to(path, false);
}

Result<void> make_own_folder(const std::string& path, unsigned mode, const char* option,
                             std::span<const uid_t> others) {
  // A folder that is refused stays as it was: what root makes in a folder of another user would be in his way.
  std::string there = path;
  struct stat status = {};
  while (!there.empty() && lstat(there.c_str(), &status) != 0) {
    there = std::filesystem::path(there).parent_path().string();
  }
  if (Result<void> checked = Walk(option, others).to(there.empty() ? "." : there, true); !checked) return checked;
  if (Result<void> made = make_directories(path, mode); !made) return made;
  return check_own_folder(path, option, others);
}

Result<std::vector<std::string>> names_in(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  if (open == nullptr) return errno_error("cannot read the folder " + folder);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = readdir(open.get());
    if (entry == nullptr && errno != 0) return errno_error("cannot read the folder " + folder);
    if (entry == nullptr) return names;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
}

Result<std::optional<FolderLock>> lock_folder(const std::string& path) {
  FolderLock locked;
  locked.folder = Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!locked.folder) return errno_error("cannot open " + path);
  // The folder may be the user's whom we are to become: root follows no link there.
  const std::string file = path + "/lock";
  locked.file = Fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!locked.file) locked.file = Fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  const Result<bool> has_folder = lock(locked.folder, path);
  if (!has_folder) return Error{has_folder.error()};
  const Result<bool> has_file = locked.file ? lock(locked.file, file) : Result<bool>(true);
  if (!has_file) return Error{has_file.error()};
  if (!*has_folder || !*has_file) return std::optional<FolderLock>();
  return std::optional<FolderLock>(std::move(locked));
}

}  // namespace weir
