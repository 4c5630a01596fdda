#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "control/base/loop/loop.h"
#include "control/policy/model/feed.h"

// This file tells which feeds change.
namespace weir::control {

// A name in a folder, on the way that a path takes.
struct Waypoint {
  std::string folder, name;
  bool operator==(const Waypoint&) const = default;
};

// What decides which file a path names, in the order of the way: each symbolic link, then the file itself. Where the
// way ends before, the name that is not there is the last one. Folders that are no links are not in it.
std::vector<Waypoint> waypoints_of(const std::string& path);

// A file to be watched. read: as it was when its content was taken; empty: as it is now. several: path stands for
// several (control/policy/read/feed_group.h), and what is watched is which.
struct WatchedFile {
  std::string path;
  std::optional<FileIdentity> read;
  bool several = false;
};

// Tells when a file is another one, or holds something else (inotify(7)), on a thread of its own: a file system that
// hangs holds nobody else. What changed is told
//   at once, when another file is renamed into its place, or a link on the way to it now leads elsewhere;
//   kQuietMs after the last writer closed it, when it was written in place, and by then nobody wrote to it again;
//   kGoneMs after it went, or was made anew, when nothing has taken its place, or been written to it, by then.
// Every sweep_ms all are looked at besides, for file systems that tell nothing (NFS) and for what the kernel could not
// tell; there a file counts once it has not changed for settled_ms.
class FeedWatch {
 public:
  static constexpr int kQuietMs = 50, kGoneMs = 1000;
  struct Times {
    int sweep_ms = 30'000, settled_ms = 5000;
  };

  // By the watch's thread, with the paths as they were named.
  using Changed = std::function<void(std::vector<std::string> paths)>;

  static Result<std::unique_ptr<FeedWatch>> start(Changed changed, Times times);
  ~FeedWatch();
  FeedWatch(const FeedWatch&) = delete;

  // From now on these, and no others. Any thread.
  void watch(std::vector<WatchedFile> files);

  // Somebody writes to it in place, and has not closed it: as the kernel knows it now, which the watch's thread is
  // asked for. most_ms: whoever has not written for so long does not count; empty: everybody does. A file that is not
  // watched is from now on, until watch() names others: whoever asks is going to read it. Who opened it before that is
  // known where it is our file, or we may take leases of others' (CAP_LEASE). Any other thread.
  bool is_being_written(const std::string& path, std::optional<int> most_ms = std::nullopt);

 private:
  struct File {
    bool several = false;
    std::optional<FileIdentity> told;      // as it was when it was read, or told of; empty: it was not there
    std::vector<Waypoint> way;             // the last one is the file; of several: folders, and any name in them
    bool is_written = false;               // and not closed
    std::optional<Clock::time_point> due;  // to be told, unless something happens before
  };
  using Files = std::map<std::string, File>;

  FeedWatch(Changed changed, Times times);
  void set(std::vector<WatchedFile> files);
  static std::optional<FileIdentity> identity(const std::string& path, const File& file);
  void begin(const std::string& path, File& file);
  static std::vector<Waypoint> way_of(const std::string& path, bool several);
  void look_at(const std::string& path, File& file);
  int watch_folder(const std::string& folder);
  void drop_folders();
  void read_events();
  void take(int folder, uint32_t what, const std::string& name);
  void take(const std::string& path, File& file, bool is_file, uint32_t what);
  void take_several(const std::string& path, File& file, const std::string& one, uint32_t what);
  void set_written(const std::string& path, bool is_written);
  void tell_at(File& file, Clock::time_point at);
  void tell();
  void set_timer();
  void sweep();

  const Changed changed_;
  const Times times_;
  Fd inotify_;

  // The thread's.
  Loop loop_;
  Files files_;
  std::map<std::string, int> folders_;  // -> watch descriptor
  std::set<std::string> not_watched_;   // folders, of which was logged that they cannot be
  Loop::Source readable_, timer_, sweeping_;

  std::mutex mutex_;                                  // guards what follows
  std::map<std::string, Clock::time_point> writing_;  // when somebody wrote last
  std::thread thread_;
};

}  // namespace weir::control
