#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/result.h"
#include "common/wire.h"
#include "control/lists/book/difference.h"
#include "control/lists/journal/database.h"

namespace weir::control {

constexpr uint32_t kNobody = UINT32_MAX;         // no user has this number
constexpr uint32_t kFleetUser = UINT32_MAX - 1;  // nor this: what a fleet added

// Whether nobody wants an answer any more: a long question ends with its next page. Empty: somebody does.
using GivenUp = std::function<bool()>;

// A publication, and what caused it.
struct GenerationRecord {
  uint64_t number = 0;
  int64_t at = 0;          // Unix seconds
  std::string cause;       // "reload: asked for", "add"
  uint32_t uid = kNobody;  // who asked, where somebody did
  uint64_t base =
      0;  // the generation whose book is its policy content: a reload's own; the rest of it is in the journal
  std::vector<ListChange> changes;  // since the one before
};

// What was published when, beside the journal's entries and in their transactions. Of one epoch: numbers of another one
// mean nothing. Any thread; a question waits while another thread's transaction is open.
class Generations {
 public:
  static constexpr int64_t kMost = 10'000;
  static constexpr int64_t kMostBefore = 4'000'000;  // of all kept changes: entries
  static constexpr size_t kMostFound = 200'000;      // by one question

  // database, turn: of the journal, which outlives this.
  static Result<Generations> open(const Database& database, Turn& turn);

  Result<void> add(uint64_t epoch, const GenerationRecord& record);
  Result<std::optional<GenerationRecord>> find(wire::Generation generation);
  // The last generation up to this one that added the entry to the list, which did not have it; 0: that is not known.
  Result<uint64_t> added_in(wire::Generation generation, const std::string& list, const std::string& text,
                            const GivenUp& is_given_up = {});
  // The newest one that was published by then.
  Result<std::optional<GenerationRecord>> newest_by(uint64_t epoch, int64_t at);
  // The newest ones, newest first.
  Result<std::vector<GenerationRecord>> newest(uint64_t epoch, size_t most);
  // Forgets what came before this one, what other epochs had, and all but the newest kMost.
  Result<void> forget_before(wire::Generation generation);
  // The oldest one that was published at this time or later; 0: none was.
  Result<uint64_t> oldest_since(uint64_t epoch, int64_t at);
  // When their changes are of more entries than that, forgets the oldest ones, and some more, so that this is rare. The
  // newest change can be taken back however large it is. Returns whether some are forgotten.
  Result<bool> forget_crowded(uint64_t epoch, int64_t most = kMostBefore);
  Result<std::vector<uint64_t>> bases(uint64_t epoch);  // that some generation needs, ascending

  // What the journal's entries were before the changes that came after this generation, newest first.
  struct Before {
    std::string list, text, comment;
    bool was_there = false;
    int64_t added_at = 0;
    uint32_t expires = 0, uid = 0;
  };
  // In pages. Error: that of visit, or of the database. visit may change the journal: what it adds is not visited.
  Result<void> visit_changes_after(wire::Generation generation,
                                   const std::function<Result<void>(const Before&)>& visit);
  // Rows, ascending: of each entry that changed after `generation` the first change, which holds what it was then. In
  // pages; 24 bytes of memory a change meanwhile. progress: may be null.
  Result<std::vector<int64_t>> first_changes(wire::Generation generation, const GivenUp& is_given_up,
                                             Progress* progress);
  Result<std::optional<Before>> change(int64_t row);

  // Of them, oldest first, those of entries that may hold some addresses: of single IPv4 addresses only these texts,
  // of IPv6 ones all of them, and everything that is no single address. Error: there are more than kMostFound, too.
  struct Numbered {
    uint64_t number;  // of the generation that changed it
    Before before;
  };
  Result<std::vector<Numbered>> changes_after(wire::Generation generation, const std::vector<std::string>& v4_texts,
                                              bool any_v6, const GivenUp& is_given_up = {});

  // Small things that outlive a restart; empty: not set.
  Result<std::string> note(const std::string& name);
  Result<void> set_note(const std::string& name, const std::string& text);

 private:
  struct Ids {
    int64_t first = 0, last = -1;
  };
  Result<Ids> ids_after(uint64_t number);  // of rows of `before` that later generations changed

  Turn* turn_ = nullptr;
  Statement add_, find_, newest_by_, newest_, oldest_since_, crowded_, trim_, trim_before_, oldest_epoch_, trim_epochs_,
      bases_, ids_after_, last_id_in_, changes_after_, keys_after_, change_, changes_of_, added_in_, note_, set_note_;
};

}  // namespace weir::control
