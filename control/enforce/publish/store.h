#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "common/fd.h"
#include "common/own_folder.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::control {

// A sealed snapshot, or an overlay with the snapshot that it stands on, as targets get it. Shared by the target links,
// never changed.
struct Publication {
  wire::Generation generation;
  Fd snapshot;  // memfd, sealed, opened read-only; an overlay's own
  uint64_t size_bytes = 0;
  std::array<uint64_t, 2> digest = {};      // XXH3-128 (low, high)
  std::shared_ptr<const Publication> base;  // of an overlay; null: this is a whole snapshot
};

// The state directory of one controld: the last good snapshot with its overlay, its book and the bypass switch. Owns
// the lock that keeps a second controld out. Files: snapshot.weir, overlay-NUMBER.weir (NUMBER: of the generation on
// which it stands) and book.weir (bytes, then a trailer with their digest, so that one rename replaces both; 0600,
// snapshots hold the filter's secret), bypass (present = on), bypass.off (present = off, and not everybody has heard of
// it), lock.
class Store {
 public:
  // Makes the directory (0700) when it is missing. Error: another controld runs on it. A Store that ends before
  // anything was saved leaves no files in a directory that was empty: after a start as root that failed, the user of
  // the service may have it.
  static Result<Store> open(const std::string& state_dir);

  // Durable when they return. Of an overlay the base is written only when it is not there yet; a crash leaves the one
  // pair or the other. The book has the entries of the last good: a refused feed keeps these,
  // and `explain` asks them. It says itself which generation it belongs to.
  Result<void> save(const Publication& publication);
  Result<void> save_book(wire::Generation generation, std::span<const std::byte> book);
  // The last good, digest and content checked, in new sealed memfds. Empty: none was saved yet. Error: damaged.
  Result<std::optional<Publication>> load() const;

  // The generation that load() would return, from the trailers alone. Error: none, or damaged.
  Result<wire::Generation> stored_generation() const;

  struct Bytes {
    Mapping mapping;
    size_t size_bytes = 0;
    std::span<const std::byte> bytes() const { return mapping.bytes().first(size_bytes); }
  };
  // The book of exactly this generation, as control/lists/book/disk.h writes it; the digest is right. Error: none, of
  // another generation, or damaged.
  Result<Bytes> book(wire::Generation generation) const;
  // That of whatever generation is in the folder, which may be another controld's.
  static Result<Bytes> book_in(const std::string& state_dir, wire::Generation* generation = nullptr);

  // Such a file of another name: bytes that belong to a generation, and their trailer. Error: damaged, or of another
  // generation. checks_digest: false: a file that is whole, and may be damaged inside.
  static Result<void> write_file(const std::string& path, wire::Generation generation,
                                 std::span<const std::byte> bytes);
  static Result<Bytes> read_file(const std::string& path, wire::Generation generation, bool checks_digest = true);

  bool bypass() const;
  // The last order: off only as long as not everybody has heard of it. Empty: there is nothing to be told.
  std::optional<bool> ordered_bypass() const;
  // is_wanted: asked when all is done but the last step, for a disk that hung until then: when it says no, all stays as
  // it was, and that is no error. An order of off takes the place of an order of on that waits for the disk.
  Result<void> set_bypass(bool on, const std::function<bool()>& is_wanted = {}) {
    return set_bypass(state_dir_, on, is_wanted);
  }
  // The same for a controld that cannot do it itself now.
  static Result<void> set_bypass(const std::string& state_dir, bool on, const std::function<bool()>& is_wanted = {});
  // Everybody has heard that it is off: the next start need not tell it. After a crash it may tell it once more.
  static Result<void> forget_off(const std::string& state_dir);

  const std::string& state_dir() const { return state_dir_; }

 private:
  std::string overlay_path(wire::Generation base) const;
  void forget_overlays(wire::Generation but_of) const;

  // The files that a start makes in a new directory, until something is saved.
  struct Begun {
    std::string state_dir;
    bool is_made = false;  // the directory, too
    bool is_kept = false;
    Begun(std::string dir, bool made) : state_dir(std::move(dir)), is_made(made) {}
    Begun(const Begun&) = delete;
    ~Begun();
  };

  std::string state_dir_;
  wire::Generation base_;  // that this process has written
  std::unique_ptr<Begun> begun_;
  FolderLock lock_;
};

}  // namespace weir::control
