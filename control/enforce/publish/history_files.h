#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/digest.h"
#include "control/enforce/publish/store.h"

namespace weir::control {

// Former generations in STATE_DIR/history. To go back to: NUMBER.yaml, the policy file's text, and NUMBER.book, its
// lists with all their entries. To tell of: NUMBER.snapshot, and NUMBER.DIGEST.feed, the bytes of each of its feeds.
// All but feeds end in a trailer with their digest. Book and snapshot are links to those that the store wrote, and a
// feed that several generations have is there once: keeping them costs no second writing.
class HistoryFiles {
 public:
  explicit HistoryFiles(const std::string& state_dir) : state_dir_(state_dir), folder_(state_dir + "/history") {}

  // Of the generation whose book the store has now.
  Result<void> keep(wire::Generation generation, const std::string& policy_text) const;
  bool has(uint64_t number) const;

  struct Feed {
    std::string path;
    Digest digest;  // of the bytes that were read
  };
  // What is only told of, of a generation that is kept: its snapshot, when it is the one that the store has now, and
  // those of its feeds that still hold what was read, and take less than a quarter of so many bytes.
  void keep_more(wire::Generation generation, const std::vector<Feed>& feeds, uint64_t most_bytes) const;
  // Of the feed's bytes, whose digest is to be checked. Empty: they are not kept.
  std::string feed_path(uint64_t number, const Digest& digest) const;
  // Error: it is not kept, or damaged.
  Result<Store::Bytes> open_snapshot(wire::Generation generation) const;

  struct Kept {
    std::string policy_text;
    Store::Bytes book;
  };
  // Error: it is not there, damaged, or of another epoch.
  // checks_digests: false: only that the book is there as a whole, and of this generation.
  Result<Kept> open(wire::Generation generation, bool checks_digests = true) const;

  // Removes all but these; of them, until the others take no more than so many bytes, first what is only told of, the
  // oldest ones before the others, then whole ones, but never the last two: one is to go back to. Returns the first
  // number that is still there; 0: none is.
  uint64_t trim(const std::vector<uint64_t>& wanted, uint64_t most_bytes) const;

 private:
  std::string path(uint64_t number, const char* ending) const;
  std::vector<std::string> names_of_files() const;
  std::string state_dir_, folder_;
};

}  // namespace weir::control
