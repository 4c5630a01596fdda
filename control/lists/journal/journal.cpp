#include "control/lists/journal/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <set>
#include <utility>

#include "common/clock.h"
#include "common/files.h"

namespace weir::control {
namespace {

constexpr int kVersion = 1;
constexpr int64_t kSweepAtOnce = 10'000;
constexpr size_t kEntriesOfPage = 10'000;  // entries of visit()
constexpr size_t kEntriesAtOnce = 1000;    // of a way back: two questions each
constexpr const char* kDamaged = ".damaged";
// The loop may wait for it at a start.
constexpr int kWaitAlone_ms = 500, kWaitShared_ms = 2000;

// `before`: what a change replaced or took away (expires is null: nothing was there), so that it can be taken back.
constexpr const char* kTables =
    "CREATE TABLE entries(list TEXT NOT NULL, entry TEXT NOT NULL, added_at INTEGER NOT NULL, expires INTEGER NOT NULL,"
    "  uid INTEGER NOT NULL, comment TEXT NOT NULL, PRIMARY KEY(list, entry)) WITHOUT ROWID;"
    "CREATE INDEX ending ON entries(expires) WHERE expires < 4294967295;"
    "CREATE TABLE before(id INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, number INTEGER NOT NULL, list TEXT NOT NULL,"
    "  entry TEXT NOT NULL, added_at INTEGER, expires INTEGER, uid INTEGER, comment TEXT);"
    "CREATE INDEX of_generation ON before(number);"
    "CREATE TABLE generations(epoch INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL,"
    "  cause TEXT NOT NULL, uid INTEGER NOT NULL, base INTEGER NOT NULL, changes TEXT NOT NULL,"
    "  PRIMARY KEY(epoch, number)) WITHOUT ROWID;"
    "CREATE TABLE notes(name TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;"
    "PRAGMA user_version = 1;";

JournalEntry entry_of(const Statement& row) {
  return {row.text(1), row.integer(2), static_cast<uint32_t>(row.integer(3)), static_cast<uint32_t>(row.integer(4)),
          row.text(5)};
}

// The entry before a change. Empty: it was not there, or has ended by now.
std::optional<JournalEntry> lasting_entry_before(const Generations::Before& change, uint64_t now) {
  const bool has_ended = change.expires != kNever && change.expires <= now;
  return has_ended ? std::nullopt : entry_before(change);
}

// Only what can never be read is no journal any more: a disk, memory or files that are short now may be there later.
// SQLITE_ERROR: its tables are not those that we ask for.
Journal::Fault fault_of(int code) {
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR) return Journal::Fault::damaged;
  return code == SQLITE_BUSY ? Journal::Fault::busy : Journal::Fault::other;
}

constexpr const char* kParts[] = {"-wal", "-shm", ""};

bool is_any_part_there(const std::string& path) {
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const char* part) { return access((path + part).c_str(), F_OK) == 0; });
}

// Returns its new name, which nothing had.
Result<std::string> put_aside(const std::string& path) {
  std::string aside = path + kDamaged;
  for (int n = 2; is_any_part_there(aside); n++) aside = path + kDamaged + "." + std::to_string(n);
  for (const char* part : kParts) {
    if (rename((path + part).c_str(), (aside + part).c_str()) != 0 && errno != ENOENT) {
      return errno_error("cannot rename " + path + part);
    }
  }
  return aside;
}

}  // namespace

std::optional<JournalEntry> entry_before(const Generations::Before& change) {
  if (!change.was_there) return std::nullopt;
  return JournalEntry{change.text, change.added_at, change.expires, change.uid, change.comment};
}

Result<Journal> Journal::open(const std::string& state_dir) {
  const std::string path = state_dir + "/journal.db";
  Fault fault = Fault::other;
  Result<Journal> journal = open_file(path, Sharing::none, fault);
  // A backup reads it: we wait for nobody who does, and share it.
  if (!journal && fault == Fault::busy) journal = open_file(path, Sharing::readers, fault);
  if (journal && journal->is_new_ && access((path + kDamaged).c_str(), F_OK) == 0) {
    journal->is_reset_ = true;
    journal->notice_ = path + " is not there, and " + path + kDamaged + " is: an empty one begins";
  }
  if (journal || fault != Fault::damaged) return journal;
  const std::string reason = journal.error();
  const Result<std::string> aside = put_aside(path);
  if (!aside) return Error{reason + ", and it cannot be kept aside: " + aside.error()};
  journal = open_file(path, Sharing::none, fault);
  if (!journal) return Error{reason + ": it is kept as " + *aside + ", and no other begins: " + journal.error()};
  journal->is_reset_ = true;
  journal->notice_ = reason + ": it is kept as " + *aside + ", and an empty one begins";
  return journal;
}

// fault: set when it fails.
Result<Journal> Journal::open_file(const std::string& path, Sharing sharing, Fault& fault) {
  fault = Fault::other;
  // It is ours alone from its first moment; the library makes its other files alike.
  Fd made(::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!made) return errno_error("cannot open " + path);
  made.reset();
  sqlite3* raw = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  Journal journal{Database(raw)};
  if (code != SQLITE_OK) return database_error(raw);
  sqlite3_busy_timeout(raw, sharing == Sharing::none ? kWaitAlone_ms : kWaitShared_ms);
  // Alone, no memory is shared, which a file would have to stand for.
  const char* locking = sharing == Sharing::none ? "PRAGMA locking_mode = EXCLUSIVE" : "PRAGMA locking_mode = NORMAL";
  Result<void> done;
  for (const char* sql : {locking, "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
                          "PRAGMA temp_store = MEMORY", "PRAGMA trusted_schema = OFF"}) {
    if (done) done = journal.run(sql);
  }
  if (done) done = journal.prepare();
  if (done) return journal;
  fault = journal.is_foreign_ ? Fault::damaged : fault_of(sqlite3_errcode(raw));
  return Error{path + ": " + done.error()};
}

Result<void> Journal::prepare() {
  Result<Statement> check = Statement::prepare(database_, "PRAGMA quick_check(1)");
  if (!check) return Error{check.error()};
  const Result<bool> checked = check->step();
  if (!checked) return Error{checked.error()};
  is_foreign_ = check->text(1) != "ok";
  if (is_foreign_) return Error{"the journal is damaged: " + check->text(1)};
  Result<Statement> version = Statement::prepare(database_, "PRAGMA user_version");
  if (!version) return Error{version.error()};
  if (Result<bool> row = version->step(); !row) return Error{row.error()};
  const int64_t found = version->integer(1);
  version->reset();
  check->reset();
  is_new_ = found == 0;
  if (is_new_) {
    if (Result<void> made = run((std::string("BEGIN;") + kTables + "COMMIT").c_str()); !made) {
      is_foreign_ = sqlite3_errcode(database_.get()) == SQLITE_ERROR;  // it has tables of another kind
      if (sqlite3_get_autocommit(database_.get()) == 0) (void)run("ROLLBACK");
      return made;
    }
  } else if (found != kVersion) {
    is_foreign_ = true;
    return Error{"the journal has format " + std::to_string(found) + ", this program reads " +
                 std::to_string(kVersion)};
  }
  const std::pair<Statement*, const char*> statements[] = {
      {&find_, "SELECT entry, added_at, expires, uid, comment FROM entries WHERE list = ?1 AND entry = ?2"},
      {&put_, "REPLACE INTO entries(list, entry, added_at, expires, uid, comment) VALUES(?1, ?2, ?3, ?4, ?5, ?6)"},
      {&erase_, "DELETE FROM entries WHERE list = ?1 AND entry = ?2"},
      {&count_, "SELECT count(*) FROM entries WHERE list = ?1"},
      {&page_,
       "SELECT entry, added_at, expires, uid, comment FROM entries WHERE list = ?1 AND entry > ?2 ORDER BY entry"
       " LIMIT ?3"},
      {&ended_, "SELECT list, entry, expires FROM entries WHERE expires < 4294967295 AND expires <= ?1 LIMIT ?2"},
      // By the index of what ends: a list may hold millions that stay.
      {&ended_of_list_,
       "SELECT list, entry, expires FROM entries WHERE expires < 4294967295 AND expires <= ?1 AND +list = ?3"
       " ORDER BY expires LIMIT ?2"},
      // Values, not a SELECT from entries: that could be many rows, so that the library would write down what it
      // changes for each, and walk through what is written down at the end of each (all_or_nothing). 50,000 entries
      // beside 250,000 took ten times as long.
      {&remember_,
       "INSERT INTO before(epoch, number, list, entry, added_at, expires, uid, comment)"
       " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"}};
  for (const auto& [statement, sql] : statements) {
    Result<Statement> prepared = Statement::prepare(database_, sql);
    if (!prepared) return Error{prepared.error()};
    *statement = std::move(*prepared);
  }
  Result<Generations> generations = Generations::open(database_, *turn_);
  if (!generations) return Error{generations.error()};
  generations_ = std::move(*generations);
  return {};
}

Result<void> Journal::run(const char* sql) {
  if (sqlite3_exec(database_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return database_error(database_.get());
  return {};
}

Result<void> Journal::begin(wire::Generation generation) {
  turn_->begin_change();
  Result<void> begun = run("BEGIN IMMEDIATE");
  if (!begun) return turn_->leave(), begun;
  generation_ = generation;
  is_in_transaction_ = true;
  return begun;
}

Result<void> Journal::commit() {
  Result<void> done = run("COMMIT");
  if (!done) return roll_back(), done;
  is_in_transaction_ = false;
  turn_->leave();
  return done;
}

// The library may have rolled back by itself already: then the turn is all that is left to give back.
void Journal::roll_back() {
  if (!is_in_transaction_) return;
  counts_.clear();
  if (sqlite3_get_autocommit(database_.get()) == 0) (void)run("ROLLBACK");
  is_in_transaction_ = false;
  turn_->leave();
}

Result<void> Journal::all_or_nothing(const std::function<Result<void>()>& work) {
  if (Result<void> begun = run("SAVEPOINT one"); !begun) return begun;
  Result<void> done = work();
  if (done) return run("RELEASE one");
  counts_.clear();
  (void)run("ROLLBACK TO one");
  (void)run("RELEASE one");
  return done;
}

Result<std::optional<JournalEntry>> Journal::find(const std::string& list, const std::string& text) {
  const Turn::Held held(*turn_);
  const Result<bool> row = find_.bind(1, list).bind(2, text).step();
  if (!row) return Error{row.error()};
  if (!*row) return std::optional<JournalEntry>();
  std::optional<JournalEntry> found = entry_of(find_);
  find_.reset();
  return found;
}

// there: what find() says of it.
Result<void> Journal::remember_before(const std::string& list, const std::string& text,
                                      const std::optional<JournalEntry>& there) {
  remember_.bind(1, static_cast<int64_t>(generation_.epoch)).bind(2, static_cast<int64_t>(generation_.number));
  remember_.bind(3, list).bind(4, text);
  if (there) {
    remember_.bind(5, there->added_at).bind(6, there->expires).bind(7, there->uid).bind(8, there->comment);
  } else {
    remember_.bind_null(5).bind_null(6).bind_null(7).bind_null(8);
  }
  return remember_.run();
}

Result<void> Journal::put(const std::string& list, const JournalEntry& entry) {
  const Result<std::optional<JournalEntry>> there = find(list, entry.text);
  if (!there) return Error{there.error()};
  return put(list, entry, *there);
}

Result<void> Journal::put(const std::string& list, const JournalEntry& entry,
                          const std::optional<JournalEntry>& there) {
  if (Result<void> kept = remember_before(list, entry.text, there); !kept) return kept;
  const auto known = counts_.find(list);
  if (!there && known != counts_.end()) known->second++;
  return put_.bind(1, list)
      .bind(2, entry.text)
      .bind(3, entry.added_at)
      .bind(4, entry.expires)
      .bind(5, entry.uid)
      .bind(6, entry.comment)
      .run();
}

Result<void> Journal::erase(const std::string& list, const std::string& text) {
  const Result<std::optional<JournalEntry>> there = find(list, text);
  if (!there) return Error{there.error()};
  if (Result<void> kept = remember_before(list, text, *there); !kept) return kept;
  if (const auto known = counts_.find(list); known != counts_.end()) known->second--;
  return erase_.bind(1, list).bind(2, text).run();
}

Result<uint64_t> Journal::count(const std::string& list) {
  const Turn::Held held(*turn_);
  const auto known = counts_.find(list);
  if (known != counts_.end()) return known->second;
  const Result<bool> row = count_.bind(1, list).step();
  if (!row) return Error{row.error()};
  const auto n = static_cast<uint64_t>(count_.integer(1));
  count_.reset();
  return counts_[list] = n;
}

Result<void> Journal::visit(const std::string& list, const std::function<void(const JournalEntry&)>& visit) {
  for (std::string after;;) {
    const Result<std::vector<JournalEntry>> found = page(list, after, kEntriesOfPage);
    if (!found) return Error{found.error()};
    for (const JournalEntry& entry : *found) visit(entry);
    if (found->size() < kEntriesOfPage) return {};
    after = found->back().text;
  }
}

Result<std::vector<JournalEntry>> Journal::page(const std::string& list, const std::string& after, size_t most) {
  const Turn::Held held(*turn_);
  page_.bind(1, list).bind(2, after).bind(3, static_cast<int64_t>(most));
  std::vector<JournalEntry> found;
  while (true) {
    const Result<bool> row = page_.step();
    if (!row) return Error{row.error()};
    if (!*row) return found;
    found.push_back(entry_of(page_));
  }
}

Result<std::vector<std::string>> Journal::lists() {
  const Turn::Held held(*turn_);
  Result<Statement> names = Statement::prepare(database_, "SELECT DISTINCT list FROM entries ORDER BY list");
  if (!names) return Error{names.error()};
  std::vector<std::string> found;
  while (true) {
    const Result<bool> row = names->step();
    if (!row) return Error{row.error()};
    if (!*row) return found;
    found.push_back(names->text(1));
  }
}

Result<Journal::WayBack> Journal::find_way_back(wire::Generation to, const GivenUp& is_given_up, Progress* progress) {
  Result<std::vector<int64_t>> rows = generations_.first_changes(to, is_given_up, progress);
  if (!rows) return Error{rows.error()};
  const uint64_t now = unix_now();
  WayBack back{to, {}};
  for (size_t begin = 0; begin < rows->size(); begin += kEntriesAtOnce) {
    if (is_given_up && is_given_up()) return Error{"nobody wants the way back any more"};
    const Turn::Held held(*turn_);
    for (size_t i = begin; i < std::min(rows->size(), begin + kEntriesAtOnce); i++) {
      const Result<std::optional<Generations::Before>> before = generations_.change((*rows)[i]);
      if (!before) return Error{before.error()};
      if (!*before) continue;  // forgotten, as go_back() will see
      const Result<std::optional<JournalEntry>> there = find((*before)->list, (*before)->text);
      if (!there) return Error{there.error()};
      if (lasting_entry_before(**before, now) != *there) back.entries.push_back((*rows)[i]);
    }
  }
  return back;
}

Result<void> Journal::go_back(const WayBack& back, uint64_t last) {
  const Result<std::optional<GenerationRecord>> to = generations_.find(back.to);
  if (!to) return Error{to.error()};
  if (!*to) {
    return Error{fmt::format(
        "generation {} was forgotten, because too many entries changed meanwhile\nhint: `controlctl history` names "
        "those that are kept",
        back.to.number)};
  }
  std::set<std::pair<std::string, std::string>> changed_later;
  const Result<void> looked =
      generations_.visit_changes_after({back.to.epoch, last}, [&](const Generations::Before& before) {
        changed_later.emplace(before.list, before.text);
        return Result<void>();
      });
  if (!looked) return looked;
  const uint64_t now = unix_now();
  for (const int64_t row : back.entries) {
    const Result<std::optional<Generations::Before>> before = generations_.change(row);
    if (!before) return Error{before.error()};
    if (!*before) return Error{"the journal is without a change that it had"};
    const std::string &list = (*before)->list, &text = (*before)->text;
    if (changed_later.contains({list, text})) continue;
    const std::optional<JournalEntry> entry = lasting_entry_before(**before, now);
    const Result<std::optional<JournalEntry>> there = find(list, text);
    if (!there) return Error{there.error()};
    Result<void> done;
    if (entry) done = put(list, *entry, *there);
    if (!entry && *there) done = erase(list, text);
    if (!done) return done;
  }
  return {};
}

Result<std::vector<Journal::Ended>> Journal::sweep(uint64_t ended_by) {
  return sweep_what(ended_.bind(1, static_cast<int64_t>(ended_by)).bind(2, kSweepAtOnce));
}

Result<std::vector<Journal::Ended>> Journal::sweep_list(const std::string& list, uint64_t ended_by, uint64_t most) {
  return sweep_what(
      ended_of_list_.bind(1, static_cast<int64_t>(ended_by)).bind(2, static_cast<int64_t>(most)).bind(3, list));
}

Result<std::vector<Journal::Ended>> Journal::sweep_what(Statement& ended) {
  std::vector<Ended> all;
  while (true) {
    const Result<bool> row = ended.step();
    if (!row) return Error{row.error()};
    if (!*row) break;
    all.push_back({ended.text(1), ended.text(2), static_cast<uint32_t>(ended.integer(3))});
  }
  for (const Ended& one : all) {
    // Nothing goes back to it, and whoever asks why a packet was dropped then is told of it.
    if (Result<void> gone = erase(one.list, one.text); !gone) return Error{gone.error()};
  }
  return all;
}

}  // namespace weir::control
