#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/progress.h"
#include "common/result.h"
#include "common/wire.h"
#include "control/lists/journal/database.h"
#include "control/lists/journal/generations.h"
#include "control/policy/model/time_text.h"

namespace weir::control {

// What somebody put into a list while controld ran.
struct JournalEntry {
  std::string text;  // as read_entry_line() returns it
  int64_t added_at = 0;
  uint32_t expires = kNever;
  uint32_t uid = 0;  // who
  std::string comment = {};
  bool operator==(const JournalEntry&) const = default;
};

// The entry before a change. Empty: it was not there.
std::optional<JournalEntry> entry_before(const Generations::Before& change);

// The entries that `controlctl add` put into lists: STATE_DIR/journal.db. What a transaction holds is on disk when
// commit() returns. One thread changes it, and any may ask: a question waits while a transaction of another thread is
// open, and a transaction waits for one page of a question at most.
class Journal {
 public:
  // A damaged file, or one of another version, is kept beside it as journal.db.damaged (the next one as
  // journal.db.damaged.2), and an empty one begins; then notice() says so. One that others read is shared with them.
  // Error: it cannot be read now; it stays as it is.
  static Result<Journal> open(const std::string& state_dir);
  Journal(Journal&&) = default;
  Journal& operator=(Journal&&) = default;

  // What the operator must be told; empty when all is well.
  const std::string& notice() const { return notice_; }
  // It began anew, in place of one that could not be read.
  bool is_reset() const { return is_reset_; }
  bool take_reset() { return std::exchange(is_reset_, false); }  // once
  // The lists hold what it holds: a journal that could be opened only later must not be changed before they do.
  bool is_in_lists() const { return is_in_lists_; }
  void set_in_lists() { is_in_lists_ = true; }
  // Why it cannot be opened.
  enum class Fault : uint8_t { damaged, busy, other };

  // The changes that follow are those of this generation: all of them, or none.
  Result<void> begin(wire::Generation generation);
  Result<void> commit();
  void roll_back();
  // Inside of it: what work() does stays only when it succeeds.
  Result<void> all_or_nothing(const std::function<Result<void>()>& work);

  Result<std::optional<JournalEntry>> find(const std::string& list, const std::string& text);
  Result<void> put(const std::string& list, const JournalEntry& entry);  // in place of what is there
  // By one who has looked: there: what find() said.
  Result<void> put(const std::string& list, const JournalEntry& entry, const std::optional<JournalEntry>& there);
  Result<void> erase(const std::string& list, const std::string& text);  // that is there
  Result<uint64_t> count(const std::string& list);
  // In the order of their texts, page by page. A change of another thread meanwhile may be visited, or not. visit
  // must not change the journal.
  Result<void> visit(const std::string& list, const std::function<void(const JournalEntry&)>& visit);
  // The first ones behind this text.
  Result<std::vector<JournalEntry>> page(const std::string& list, const std::string& after, size_t most);
  Result<std::vector<std::string>> lists();  // that have entries
  // The way back to a generation: all entries that differ from what they were when it was published.
  struct WayBack {
    wire::Generation to;
    std::vector<int64_t> entries;  // rows of Generations
  };
  // Any thread, beside changes: one waits for a page at most. progress: may be null.
  Result<WayBack> find_way_back(wire::Generation to, const GivenUp& is_given_up, Progress* progress);
  // In a transaction, whose changes can be taken back likewise. Entries that changed after generation `last` stay as
  // they are; what ended since then stays away. Error: the generation was forgotten meanwhile, too.
  Result<void> go_back(const WayBack& back, uint64_t last);
  Generations& generations() { return generations_; }

  struct Ended {
    std::string list, text;
    uint32_t expires;
  };
  // Takes out entries that ended by then, some thousands at most: they match nothing any more.
  Result<std::vector<Ended>> sweep(uint64_t ended_by);
  // The same for one list: so many at most, those that ended first.
  Result<std::vector<Ended>> sweep_list(const std::string& list, uint64_t ended_by, uint64_t most);

 private:
  explicit Journal(Database database) : database_(std::move(database)), turn_(std::make_unique<Turn>()) {}
  enum class Sharing : uint8_t { none, readers };
  static Result<Journal> open_file(const std::string& path, Sharing sharing, Fault& fault);
  Result<void> prepare();
  Result<void> remember_before(const std::string& list, const std::string& text,
                               const std::optional<JournalEntry>& there);
  Result<std::vector<Ended>> sweep_what(Statement& ended);
  Result<void> run(const char* sql);

  Database database_;  // before its statements
  std::unique_ptr<Turn> turn_;
  bool is_in_transaction_ = false;
  Statement find_, put_, erase_, count_, page_, ended_, ended_of_list_, remember_;
  Generations generations_;
  wire::Generation generation_;
  std::map<std::string, uint64_t> counts_;
  std::string notice_;
  bool is_reset_ = false;
  bool is_in_lists_ = false;
  bool is_new_ = false;      // its tables were made at the opening
  bool is_foreign_ = false;  // damaged, or of another version
};

}  // namespace weir::control
