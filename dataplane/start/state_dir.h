#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "common/digest.h"
#include "common/fd.h"
#include "common/own_folder.h"
#include "common/result.h"

namespace weir::dataplane {

// The folder that outlives the process: the last good snapshot and the bypass switch. One process at a time.
class StateDir {
 public:
  // Makes the folder (0700) and locks it; fails while another process holds it, and when others may write it
  // (common/own_folder.h). users: whose it may be besides root's and ours.
  static Result<StateDir> open(const std::string& path, std::span<const uid_t> users = {});

  const std::string& path() const { return path_; }
  // Every file that may be in it.
  static std::span<const std::string> file_names();
  // Whether the user that we are now may replace files in it.
  Result<void> check_writable() const;

  std::string snapshot_path() const { return path_ + "/snapshot.weir"; }
  // snapshot.weir: the snapshot's bytes, then the two words of its digest. 0600: it holds the hash secret.
  Result<void> save_snapshot(std::span<const std::byte> bytes, const Digest& digest) const;
  // Size of the saved snapshot without its digest; empty when there is none.
  Result<std::optional<size_t>> saved_snapshot_size() const;
  // Reads it into bytes (of that size) and returns the saved digest, compared with the bytes by the caller.
  Result<Digest> load_snapshot(std::span<std::byte> bytes) const;

  // is_wanted: asked just before it takes effect, for a disk that hung until then: when it says no, what was saved
  // stays.
  Result<void> save_bypass(bool on, const std::function<bool()>& is_wanted = {}) const;
  Result<bool> load_bypass() const;  // false when never saved

 private:
  std::string path_;
  Fd folder_;  // what is saved is reached by it alone: whoever opened it could reach the path, we may not any more
  FolderLock lock_;
};

}  // namespace weir::dataplane
