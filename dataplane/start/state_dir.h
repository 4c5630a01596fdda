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
#include "common/wire.h"

namespace weir::dataplane {

// The folder that outlives the process: the last good snapshot with its overlay, and the bypass switch. One process at
// a time. A saved snapshot, or overlay, is its bytes, then the two words of its digest; 0600: it holds the hash secret.
class StateDir {
 public:
  // Makes the folder (0700) and locks it; fails while another process holds it, and when others may write it
  // (common/own_folder.h). users: whose it may be besides root's and ours.
  static Result<StateDir> open(const std::string& path, std::span<const uid_t> users = {});

  const std::string& path() const { return path_; }
  // Whether a file of this name may be in it.
  static bool is_own(const std::string& name);
  // Whether the user that we are now may replace files in it.
  Result<void> check_writable() const;

  std::string snapshot_path() const { return path_ + "/snapshot.weir"; }
  Result<void> save_snapshot(std::span<const std::byte> bytes, const Digest& digest) const {
    return save(snapshot_path(), bytes, digest);
  }
  // Size of the saved snapshot without its digest; empty when there is none.
  Result<std::optional<size_t>> saved_snapshot_size() const { return saved_size(snapshot_path()); }
  // Reads it into bytes (of that size) and returns the saved digest, compared with the bytes by the caller.
  Result<Digest> load_snapshot(std::span<std::byte> bytes) const { return load(snapshot_path(), bytes); }

  // The same of the overlay that stands on the snapshot of this generation, which its file is named by.
  std::string overlay_path(wire::Generation base) const;
  Result<void> save_overlay(wire::Generation base, std::span<const std::byte> bytes, const Digest& digest) const {
    return save(overlay_path(base), bytes, digest);
  }
  Result<std::optional<size_t>> saved_overlay_size(wire::Generation base) const {
    return saved_size(overlay_path(base));
  }
  Result<Digest> load_overlay(wire::Generation base, std::span<std::byte> bytes) const {
    return load(overlay_path(base), bytes);
  }
  // Durably, as saving is. That there is none is no error.
  Result<void> remove_overlay(wire::Generation base) const;
  Result<void> remove_overlays_but(wire::Generation base) const;
  // For who wants to know what was wrong with it: as `overlay.damaged`.
  Result<void> set_overlay_aside(wire::Generation base) const;

  // is_wanted: asked just before it takes effect, for a disk that hung until then: when it says no, what was saved
  // stays.
  Result<void> save_bypass(bool on, const std::function<bool()>& is_wanted = {}) const;
  Result<bool> load_bypass() const;  // false when never saved

 private:
  Result<void> save(const std::string& path, std::span<const std::byte> bytes, const Digest& digest) const;
  static Result<std::optional<size_t>> saved_size(const std::string& path);
  static Result<Digest> load(const std::string& path, std::span<std::byte> bytes);

  std::string path_;
  Fd folder_;  // what is saved is reached by it alone: whoever opened it could reach the path, we may not any more
  FolderLock lock_;
};

}  // namespace weir::dataplane
