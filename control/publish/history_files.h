#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/publish/store.h"

namespace weir::control {

// The policies of former generations in STATE_DIR/history: NUMBER.yaml, the file's text, and NUMBER.book, its lists
// with all their entries; each ends in a trailer with its digest. The book is a link to the one that the store wrote:
// keeping it costs no second writing.
class HistoryFiles {
 public:
  explicit HistoryFiles(const std::string& state_dir)
      : folder_(state_dir + "/history"), book_(state_dir + "/book.weir") {}

  // Of the generation whose book the store has now.
  Result<void> keep(wire::Generation generation, const std::string& policy_text) const;
  bool has(uint64_t number) const;

  struct Kept {
    std::string policy_text;
    Store::Bytes book;
  };
  // Error: it is not there, damaged, or of another epoch.
  Result<Kept> open(wire::Generation generation) const;

  // Removes all but these; of them the oldest ones as well, until the others take no more than so many bytes; never the
  // last two: one is to go back to. Returns the first number that is still there; 0: none is.
  uint64_t trim(const std::vector<uint64_t>& wanted, uint64_t most_bytes) const;

 private:
  std::string path(uint64_t number, const char* ending) const;
  std::string folder_, book_;
};

}  // namespace weir::control
