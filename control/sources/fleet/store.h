#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/base/json/fields.h"
#include "control/sources/fleet/revision.h"

namespace weir::control::fleet {

// What a node has followed, over restarts.
struct Followed {
  std::string fleet;
  uint64_t turn = 0;      // of the newest head
  std::string head_id;    // its id
  uint64_t revision = 0;  // that is enforced; 0: none
  std::string policy;     // the path of its policy file
};
void members(Fields& f, Followed& followed);

// STATE_DIR/fleet: the files of revisions, and what was followed. One thread at a time.
//   followed          text of Followed
//   blobs/DIGEST      the bytes of a file
//   NUMBER/PATH       the files of a revision, by hard links
class Store {
 public:
  explicit Store(std::string folder) : folder_(std::move(folder)) {}

  // Error: it cannot be read. What is damaged, or another fleet's, is as if there were nothing.
  Result<Followed> read(const std::string& fleet) const;
  Result<void> write(const Followed& followed) const;

  // Files whose bytes are not here yet, each once by digest.
  std::vector<BlobFile> missing(const Revision& revision) const;
  // The bytes of a revision's file; empty: it is not here.
  std::string bytes_of(uint64_t revision, const std::string& path) const;
  // Error: these bytes have another digest, or cannot be written.
  Result<void> put(const BlobFile& file, std::span<const std::byte> bytes) const;
  // The files of a revision, all of whose bytes are here. Returns the path of its policy file.
  Result<std::string> lay_out(const Revision& revision) const;
  // Removes the revisions that are not among these, and the bytes that no other has.
  void keep_only(const std::set<uint64_t>& numbers) const;

  // A policy without lists, of a node that has not heard of its fleet yet. Returns its path.
  Result<std::string> empty_policy() const;

 private:
  std::string blob(const std::string& digest) const { return folder_ + "/blobs/" + digest; }
  std::string of_revision(uint64_t number) const { return folder_ + "/" + std::to_string(number); }

  const std::string folder_;
};

// The same for several threads, and what was followed: a turn and a revision are kept by different ones, and none may
// undo what the other kept.
class Disk {
 public:
  explicit Disk(std::string folder) : files(std::move(folder)) {}
  Followed read(const std::string& fleet);  // once, first
  Result<void> keep_turn(uint64_t turn, const std::string& head_id);
  Result<void> keep_revision(uint64_t number, const std::string& policy);

  const Store files;

 private:
  Result<void> keep(const Followed& next);

  std::mutex mutex_;  // guards the next one, and its file
  Followed followed_;
};

}  // namespace weir::control::fleet
