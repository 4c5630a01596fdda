#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/digest.h"
#include "common/fd.h"
#include "common/result.h"

namespace weir::dataplane {

// The folder that outlives the process: the last good snapshot and the bypass switch. One process at a time.
class StateDir {
 public:
  // Makes the folder (0700) and locks it; fails while another process holds it.
  static Result<StateDir> open(const std::string& path);

  const std::string& path() const { return path_; }
  // Every file that may be in it.
  static std::span<const std::string> file_names();
  // Whether files can be replaced in it, by the user that we are now.
  Result<void> check_writable() const;

  std::string snapshot_path() const { return path_ + "/snapshot.weir"; }
  // snapshot.weir: the snapshot's bytes, then the two words of its digest. 0600: it holds the hash secret.
  Result<void> save_snapshot(std::span<const std::byte> bytes, const Digest& digest) const;
  // Size of the saved snapshot without its digest; empty when there is none.
  Result<std::optional<size_t>> saved_snapshot_size() const;
  // Reads it into bytes (of that size) and returns the saved digest, compared with the bytes by the caller.
  Result<Digest> load_snapshot(std::span<std::byte> bytes) const;

  Result<void> save_bypass(bool on) const;
  Result<bool> load_bypass() const;  // false when never saved

 private:
  std::string path_;
  Fd folder_;  // what is saved is reached by it alone: whoever opened it could reach the path, we may not any more
  Fd lock_;
};

}  // namespace weir::dataplane
