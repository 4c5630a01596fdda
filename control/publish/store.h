#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/fd.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::control {

// A sealed snapshot as targets get it. Shared by the target links, never changed.
struct Publication {
  wire::Generation generation;
  Fd snapshot;  // memfd, sealed, opened read-only
  uint64_t size_bytes = 0;
  std::array<uint64_t, 2> digest = {};  // XXH3-128 (low, high)
};

// The state directory of one controld: the last good snapshot, its book and the bypass switch. Owns the lock that
// keeps a second controld out. Files: snapshot.weir and book.weir (bytes, then a trailer with their digest, so that
// one rename replaces both; 0600, the snapshot holds the filter's secret), bypass (present = on), lock.
class Store {
 public:
  // Makes the directory (0700) when it is missing. Error: another controld runs on it.
  static Result<Store> open(const std::string& state_dir);

  // Durable when it returns.
  Result<void> save(const Publication& publication, std::span<const std::byte> book);
  // The last good, digest and content checked, in a new sealed memfd. Empty: none was saved yet. Error: damaged.
  Result<std::optional<Publication>> load() const;

  // The generation that load() would return, from the trailer alone. Error: none, or damaged.
  Result<wire::Generation> stored_generation() const;

  struct Bytes {
    Mapping mapping;
    size_t size_bytes = 0;
    std::span<const std::byte> bytes() const { return mapping.bytes().first(size_bytes); }
  };
  // The book of exactly this generation, as control/book/disk.h writes it; the digest is right. Error: none, of another
  // generation, or damaged.
  Result<Bytes> book(wire::Generation generation) const;

  bool bypass() const;
  Result<void> set_bypass(bool on);

  const std::string& state_dir() const { return state_dir_; }

 private:
  std::string state_dir_;
  Fd lock_;
};

}  // namespace weir::control
