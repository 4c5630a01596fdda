#include "control/sources/watch/feed_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <future>

#include "common/files.h"
#include "common/log/log.h"
#include "common/thread.h"
#include "common/wait_for.h"
#include "control/policy/read/feed_group.h"
#include "control/policy/read/feed_parts.h"

namespace weir::control {

namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel follows (path_resolution(7))

void put_in_front(const fs::path& way, std::deque<fs::path>& rest) {
  const fs::path relative = way.relative_path();
  std::deque<fs::path> parts(relative.begin(), relative.end());
  rest.insert(rest.begin(), parts.begin(), parts.end());
}

}  // namespace

std::vector<Waypoint> waypoints_of(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return {};
  std::vector<Waypoint> way;
  std::deque<fs::path> rest;
  put_in_front(absolute, rest);
  fs::path folder = "/";
  int links = 0;
  while (!rest.empty()) {
    const fs::path name = rest.front();
    rest.pop_front();
    if (name.empty() || name == ".") continue;
    if (name == "..") {
      folder = folder.parent_path();
      continue;
    }
    const fs::path here = folder / name;
    struct stat status = {};
    const bool is_there = lstat(here.c_str(), &status) == 0;
    const bool is_link = is_there && S_ISLNK(status.st_mode);
    if (!is_there || is_link || rest.empty()) way.push_back({folder.string(), name.string()});
    if (!is_there || (is_link && ++links > kMostLinks)) break;
    if (!is_link) {
      folder = here;
      continue;
    }
    const fs::path target = fs::read_symlink(here, error);
    if (error) break;
    if (target.is_absolute()) folder = "/";
    put_in_front(target, rest);
  }
  return way;
}

namespace {

using std::chrono::milliseconds;

constexpr uint32_t kInPlace = IN_MODIFY | IN_CLOSE_WRITE;
constexpr uint32_t kOther = IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_MOVED_FROM;  // what the name stands for
constexpr uint32_t kFolder = IN_MOVE_SELF | IN_DELETE_SELF | IN_IGNORED | IN_UNMOUNT;
// IN_MASK_ADD: else the kernel takes what is wanted of a folder away, and puts it back, each time it is named again
// (inotify_update_existing_watch of fs/notify/inotify/inotify_user.c); what happens in between is never told.
constexpr uint32_t kWanted = kInPlace | kOther | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR | IN_MASK_ADD;

// A new name that a writer has made a moment ago, and that he will close.
bool is_new_file(const std::string& path) {
  struct stat status = {};
  return lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1;
}

// Somebody has it open to write to it. A lease to read is not given then (fcntl(2), F_SETLEASE); whose file it is not,
// and who may not take leases of others', is not told: then no.
bool has_writer(const std::string& path) {
  const Fd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file) return false;
  // Who opens it meanwhile waits until the lease is given back, a moment later. The signal that asks for it back is
  // one that nobody hears; SIGIO would end the process.
  if (fcntl(file.get(), F_SETSIG, SIGURG) != 0) return false;
  if (fcntl(file.get(), F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  (void)fcntl(file.get(), F_SETLEASE, F_UNLCK);
  return false;
}

bool has_rested(const FileIdentity& file, milliseconds least) {
  return unix_now_ns() - std::max(file.changed_ns, file.modified_ns) >= std::chrono::nanoseconds(least).count();
}

}  // namespace

FeedWatch::FeedWatch(Changed changed, Times times)
    : changed_(std::move(changed)), times_(times), inotify_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

Result<std::unique_ptr<FeedWatch>> FeedWatch::start(Changed changed, Times times) {
  std::unique_ptr<FeedWatch> watch(new FeedWatch(std::move(changed), times));
  if (!watch->inotify_) return errno_error("cannot watch files");
  watch->readable_ =
      watch->loop_.io(watch->inotify_.get(), EPOLLIN, [raw = watch.get()](uint32_t) { raw->read_events(); });
  if (!watch->readable_) return errno_error("cannot watch files");
  watch->sweep();
  Result<std::thread> thread = start_thread([raw = watch.get()] { raw->loop_.run(); });
  if (!thread) return Error{thread.error()};
  watch->thread_ = std::move(*thread);
  return watch;
}

FeedWatch::~FeedWatch() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void FeedWatch::watch(std::vector<WatchedFile> files) {
  loop_.post([this, files = std::move(files)] { set(files); });
}

bool FeedWatch::is_being_written(const std::string& path, std::optional<int> most_ms) {
  constexpr std::chrono::seconds kMostWait{1};  // for a thread that a file system holds
  const auto asked = std::make_shared<std::promise<void>>();
  std::future<void> answered = asked->get_future();
  loop_.post([this, path, asked] {
    if (const auto [file, is_new] = files_.try_emplace(path); is_new) begin(path, file->second);
    read_events();
    asked->set_value();
  });
  (void)wait_for(answered, kMostWait);
  const std::lock_guard lock(mutex_);
  const auto found = writing_.find(path);
  return found != writing_.end() && (!most_ms || Clock::now() - found->second < milliseconds(*most_ms));
}

// Of a file that is watched from now on: what the kernel did not tell yet.
void FeedWatch::begin(const std::string& path, File& file) {
  bool is_written = false;
  {
    const std::lock_guard lock(mutex_);
    is_written = writing_.contains(path);  // one of several
  }
  look_at(path, file);
  file.told = identity_of(path);
  if (!is_written && !has_writer(path)) return;
  file.told.reset();  // whatever it holds when it is closed counts
  file.is_written = true;
  set_written(path, true);
}

void FeedWatch::set(std::vector<WatchedFile> files) {
  Files next;
  for (WatchedFile& file : files) {
    const auto known = files_.find(file.path);
    if (known != files_.end()) {
      File& here = known->second;
      if (here.several) {
        here.told = file.read;  // one that was being written was left out, and counts when it is closed
      } else if (file.read && !here.is_written) {
        here.told = file.read;
        here.due.reset();
        // What was told while nobody could use it, as in a start, is told again.
        if (identity_of(file.path) != file.read) tell_at(here, Clock::now() + milliseconds(kQuietMs));
      }
      next.insert(files_.extract(known));
      continue;
    }
    const auto [at, is_new] = next.try_emplace(file.path);
    if (!is_new) continue;
    at->second.several = file.several;
    look_at(at->first, at->second);
    at->second.told = file.read ? file.read : identity(file.path, at->second);
    // From here on the kernel tells; this is what happened since it was read.
    if (identity(file.path, at->second) != at->second.told) tell_at(at->second, Clock::now() + milliseconds(kQuietMs));
  }
  for (const auto& [path, file] : files_) {
    const std::lock_guard lock(mutex_);
    writing_.erase(path);
  }
  files_ = std::move(next);
  drop_folders();
  set_timer();
}

// As it is now. Of several: which they are.
std::optional<FileIdentity> FeedWatch::identity(const std::string& path, const File& file) {
  if (!file.several) return identity_of(path);
  const Result<std::vector<std::string>> names = feed_names(path);
  return names ? std::optional(identity_of(*names)) : std::nullopt;
}

std::vector<Waypoint> FeedWatch::way_of(const std::string& path, bool several) {
  if (!several) return waypoints_of(path);
  std::vector<Waypoint> way;
  for (const std::string& folder : feed_folders(path)) way.push_back({folder, ""});
  return way;
}

// Finds the way of its path anew. What changes before a folder is watched is not told: the way is found only when it is
// the same once its folders are watched.
void FeedWatch::look_at(const std::string& path, File& file) {
  constexpr int kMostLooks = 10;  // the next sweep looks again
  for (int look = 0; look < kMostLooks; look++) {
    std::vector<Waypoint> way = way_of(path, file.several);
    if (look != 0 && way == file.way) return;
    file.way = std::move(way);
    for (const Waypoint& point : file.way) watch_folder(point.folder);
  }
}

// The same descriptor when it is watched already. A folder that was exchanged for another has another one.
int FeedWatch::watch_folder(const std::string& folder) {
  const int descriptor = inotify_add_watch(inotify_.get(), folder.c_str(), kWanted);
  if (descriptor < 0) {
    if (not_watched_.insert(folder).second) {
      log::warning("a folder of feeds cannot be watched, and is looked at now and then",
                   {{"folder", folder}, {"error", strerror(errno)}, {"every_s", times_.sweep_ms / 1000}});
    }
    folders_.erase(folder);
    return descriptor;
  }
  not_watched_.erase(folder);
  return folders_[folder] = descriptor;
}

// Those that nothing leads through any more.
void FeedWatch::drop_folders() {
  std::set<std::string> used;
  for (const auto& [path, file] : files_) {
    for (const Waypoint& point : file.way) used.insert(point.folder);
  }
  std::set<int> kept;
  for (const auto& [folder, descriptor] : folders_) {
    if (used.contains(folder)) kept.insert(descriptor);
  }
  for (auto it = folders_.begin(); it != folders_.end();) {
    const auto here = it++;
    if (used.contains(here->first)) continue;
    if (!kept.contains(here->second)) inotify_rm_watch(inotify_.get(), here->second);
    folders_.erase(here);
  }
  std::erase_if(not_watched_, [&](const std::string& folder) { return !used.contains(folder); });
}

void FeedWatch::read_events() {
  constexpr int kMostReads = 64;  // then whoever else wants something of this thread
  alignas(inotify_event) char bytes[16 * 1024];
  for (int i = 0; i < kMostReads; i++) {
    const ssize_t got = read(inotify_.get(), bytes, sizeof bytes);
    if (got <= 0) break;
    for (const char* at = bytes; at < bytes + got;) {
      inotify_event event;
      memcpy(&event, at, sizeof event);
      const char* name = at + sizeof event;
      take(event.wd, event.mask, event.len == 0 ? "" : std::string(name, strnlen(name, event.len)));
      at += sizeof event + event.len;
    }
  }
  tell();
}

void FeedWatch::take(int folder, uint32_t what, const std::string& name) {
  const auto is_it = [&](const Waypoint& point) {
    const auto found = folders_.find(point.folder);
    const bool is_here = found != folders_.end() && found->second == folder;
    return is_here && ((what & kFolder) != 0 || point.name == name || point.name.empty());
  };
  for (auto& [path, file] : files_) {
    if ((what & IN_Q_OVERFLOW) != 0) {
      take(path, file, false, what);
      continue;
    }
    const auto point = std::find_if(file.way.begin(), file.way.end(), is_it);
    if (point == file.way.end()) continue;
    if (file.several) {
      take_several(path, file, (std::filesystem::path(point->folder) / name).string(), what);
    } else {
      take(path, file, point + 1 == file.way.end(), what);
    }
  }
  if ((what & (IN_IGNORED | IN_UNMOUNT)) != 0) {
    std::erase_if(folders_, [&](const auto& one) { return one.second == folder; });
  }
}

// is_file: of the file itself, not of what leads to it.
void FeedWatch::take(const std::string& path, File& file, bool is_file, uint32_t what) {
  const Clock::time_point now = Clock::now();
  if (is_file && (what & IN_MODIFY) != 0) {
    file.due.reset();
    file.is_written = true;
    return set_written(path, true);
  }
  if (is_file && (what & (IN_CLOSE_WRITE | IN_ATTRIB)) != 0) {
    if ((what & IN_CLOSE_WRITE) != 0) {
      file.is_written = false;
      set_written(path, false);
    }
    return file.is_written ? void() : tell_at(file, now + milliseconds(kQuietMs));
  }
  if ((what & (kOther | kFolder | IN_Q_OVERFLOW)) == 0) return;
  look_at(path, file);
  file.is_written = false;
  set_written(path, false);
  const std::optional<FileIdentity> identity = identity_of(path);
  const bool is_made = is_file && (what & IN_CREATE) != 0 && is_new_file(path);
  if (!identity || is_made) return tell_at(file, now + milliseconds(kGoneMs));
  if ((what & IN_Q_OVERFLOW) != 0 && file.told && identity->inode == file.told->inode) {
    return tell_at(file, now + milliseconds(times_.settled_ms));  // whoever wrote to it may not be done
  }
  const bool is_at_once = (what & (IN_MOVED_TO | IN_Q_OVERFLOW)) != 0;
  tell_at(file, is_at_once ? now : now + milliseconds(kQuietMs));
}

// A name in one of its folders is new, or gone; what is in the files is told by themselves. One that is new counts when
// it was renamed there, or its writer has closed it.
void FeedWatch::take_several(const std::string& path, File& file, const std::string& one, uint32_t what) {
  const Clock::time_point now = Clock::now();
  if ((what & (IN_MODIFY | IN_CLOSE_WRITE | kOther)) != 0 && !files_.contains(one)) {
    set_written(one, (what & IN_MODIFY) != 0);
  }
  if ((what & IN_MOVED_TO) != 0) return tell_at(file, now);
  if ((what & IN_CLOSE_WRITE) != 0) return tell_at(file, now + milliseconds(kQuietMs));
  if ((what & (kOther | kFolder | IN_Q_OVERFLOW)) == 0) return;
  if ((what & kFolder) != 0) look_at(path, file);
  if (!file.due) tell_at(file, now + milliseconds(kGoneMs));
}

void FeedWatch::set_written(const std::string& path, bool is_written) {
  const std::lock_guard lock(mutex_);
  if (is_written) {
    writing_[path] = Clock::now();
  } else {
    writing_.erase(path);
  }
}

void FeedWatch::tell_at(File& file, Clock::time_point at) {
  file.due = at;
}

// Those that are due, and are another file now than when they were told of last.
void FeedWatch::tell() {
  const Clock::time_point now = Clock::now();
  std::vector<std::string> changed;
  for (auto& [path, file] : files_) {
    if (!file.due || *file.due > now) continue;
    file.due.reset();
    const std::optional<FileIdentity> now_it_is = identity(path, file);
    if (now_it_is == file.told) continue;
    file.told = now_it_is;
    changed.push_back(path);
  }
  if (!changed.empty()) changed_(std::move(changed));
  set_timer();
}

void FeedWatch::set_timer() {
  std::optional<Clock::time_point> next;
  for (const auto& [path, file] : files_) {
    if (file.due && (!next || *file.due < *next)) next = file.due;
  }
  timer_.reset();
  if (next) timer_ = loop_.timer(*next, [this] { tell(); });
}

void FeedWatch::sweep() {
  for (auto& [path, file] : files_) {
    if (file.due || file.is_written) continue;
    if (file.several) look_at(path, file);  // a folder may be new
    const std::optional<FileIdentity> now_it_is = identity(path, file);
    const bool has_time = now_it_is && !file.several;
    if (now_it_is == file.told || (has_time && !has_rested(*now_it_is, milliseconds(times_.settled_ms)))) continue;
    look_at(path, file);
    tell_at(file, Clock::now());
  }
  drop_folders();
  tell();
  sweeping_ = loop_.timer(Clock::now() + milliseconds(times_.sweep_ms), [this] { sweep(); });
}

}  // namespace weir::control
