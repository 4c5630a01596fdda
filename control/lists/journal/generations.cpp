#include "control/lists/journal/generations.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <string_view>

#include "common/digest.h"

namespace weir::control {
namespace {

constexpr int64_t kRowsOfPage =
    10'000;  // rows of `before`: a change waits for no more than one page, some milliseconds

constexpr const char* kGivenUp = "nobody wants the answer any more";

// One change a line: list, state, entries, added, removed. Names of lists have no blanks.
std::string text_of(const std::vector<ListChange>& changes) {
  std::string text;
  for (const ListChange& change : changes) {
    text += fmt::format("{} {} {} {} {}\n", change.name, change.state, change.entries, change.added, change.removed);
  }
  return text;
}

std::string_view next_word(std::string_view& text) {
  const size_t end = std::min(text.find_first_of(" \n"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::vector<ListChange> changes_of(const std::string& text) {
  std::vector<ListChange> changes;
  for (std::string_view rest = text; !rest.empty();) {
    ListChange change;
    change.name = next_word(rest);
    change.state = next_word(rest);
    for (uint64_t* number : {&change.entries, &change.added, &change.removed}) {
      const std::string_view word = next_word(rest);
      std::from_chars(word.data(), word.data() + word.size(), *number);
    }
    changes.push_back(std::move(change));
  }
  return changes;
}

GenerationRecord record_of(const Statement& row) {
  return {
      static_cast<uint64_t>(row.integer(1)), row.integer(2),         row.text(3), static_cast<uint32_t>(row.integer(4)),
      static_cast<uint64_t>(row.integer(5)), changes_of(row.text(6))};
}

Generations::Before before_of(const Statement& row) {
  return {row.text(1),
          row.text(2),
          row.text(3),
          row.integer(4) != 0,
          row.integer(5),
          static_cast<uint32_t>(row.integer(6)),
          static_cast<uint32_t>(row.integer(7))};
}

int64_t as_integer(uint64_t value) {
  return static_cast<int64_t>(value);
}

}  // namespace

Result<Generations> Generations::open(const Database& database, Turn& turn) {
  Generations all;
  all.turn_ = &turn;
  const std::pair<Statement*, const char*> statements[] = {
      {&all.add_,
       "REPLACE INTO generations(epoch, number, at, cause, uid, base, changes) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
      {&all.find_, "SELECT number, at, cause, uid, base, changes FROM generations WHERE epoch = ?1 AND number = ?2"},
      {&all.newest_by_,
       "SELECT number, at, cause, uid, base, changes FROM generations WHERE epoch = ?1 AND at <= ?2"
       " ORDER BY number DESC LIMIT 1"},
      {&all.newest_,
       "SELECT number, at, cause, uid, base, changes FROM generations WHERE epoch = ?1 ORDER BY number DESC LIMIT ?2"},
      {&all.oldest_since_, "SELECT coalesce(min(number), 0) FROM generations WHERE epoch = ?1 AND at >= ?2"},
      // Ids ascend without gaps: nothing is counted.
      {&all.crowded_,
       "SELECT CASE epoch WHEN ?1 THEN number ELSE 0 END FROM before WHERE id <= (SELECT max(id) FROM before) - ?3"
       " AND (SELECT max(id) FROM before) - (SELECT min(id) FROM before) >= ?2 ORDER BY id DESC LIMIT 1"},
      {&all.trim_,
       "DELETE FROM generations WHERE epoch <> ?1 OR number < ?2 OR number <="
       " (SELECT number FROM generations WHERE epoch = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?3)"},
      // By the index: not all rows are looked at.
      {&all.trim_before_, "DELETE FROM before WHERE number <= (SELECT min(number) FROM generations WHERE epoch = ?1)"},
      {&all.oldest_epoch_, "SELECT epoch FROM before ORDER BY id LIMIT 1"},
      {&all.trim_epochs_, "DELETE FROM before WHERE epoch <> ?1"},
      {&all.bases_, "SELECT DISTINCT base FROM generations WHERE epoch = ?1 ORDER BY base"},
      // Numbers ascend with ids. By the index, which holds both.
      {&all.ids_after_,
       "SELECT coalesce((SELECT id FROM before WHERE number > ?1 ORDER BY number, id LIMIT 1), 0),"
       " coalesce((SELECT max(id) FROM before), -1)"},
      {&all.last_id_in_,
       "SELECT coalesce((SELECT id FROM before WHERE number <= ?1 AND epoch = ?2 ORDER BY number DESC, id DESC LIMIT "
       "1), 0)"},
      {&all.changes_after_,
       "SELECT list, entry, comment, expires IS NOT NULL, added_at, expires, uid FROM before"
       " WHERE epoch = ?1 AND number > ?2 AND id BETWEEN ?3 AND ?4 ORDER BY id DESC"},
      {&all.keys_after_,
       "SELECT id, list, entry FROM before WHERE epoch = ?1 AND number > ?2 AND id BETWEEN ?3 AND ?4"},
      {&all.change_,
       "SELECT list, entry, comment, expires IS NOT NULL, added_at, expires, uid FROM before WHERE id = ?1"},
      // Blanks, slashes and hyphens are in what is more than an address, `1.2.3.4:5` has a dot before its colon, and
      // `[::1]:5` a bracket. ?3: texts, each between blanks.
      {&all.changes_of_,
       "SELECT list, entry, comment, expires IS NOT NULL, added_at, expires, uid, number FROM before"
       " WHERE epoch = ?1 AND number > ?2 AND id BETWEEN ?5 AND ?6 AND (entry GLOB '*[-/[ ]*' OR entry GLOB '*.*:*' OR"
       " (?4 AND entry GLOB '*:*') OR instr(?3, ' ' || entry || ' ')) ORDER BY id"},
      {&all.added_in_,
       "SELECT number FROM before WHERE epoch = ?1 AND list = ?3 AND entry = ?4 AND expires IS NULL"
       " AND id BETWEEN ?5 AND ?6 ORDER BY id DESC LIMIT 1"},
      {&all.note_, "SELECT text FROM notes WHERE name = ?1"},
      {&all.set_note_, "REPLACE INTO notes(name, text) VALUES(?1, ?2)"}};
  for (const auto& [statement, sql] : statements) {
    Result<Statement> prepared = Statement::prepare(database, sql);
    if (!prepared) return Error{prepared.error()};
    *statement = std::move(*prepared);
  }
  return all;
}

Result<void> Generations::add(uint64_t epoch, const GenerationRecord& record) {
  const Turn::Held held(*turn_);
  const std::string changes = text_of(record.changes);
  return add_.bind(1, as_integer(epoch))
      .bind(2, as_integer(record.number))
      .bind(3, record.at)
      .bind(4, record.cause)
      .bind(5, record.uid)
      .bind(6, as_integer(record.base))
      .bind(7, changes)
      .run();
}

Result<std::optional<GenerationRecord>> Generations::find(wire::Generation generation) {
  const Turn::Held held(*turn_);
  const Result<bool> row = find_.bind(1, as_integer(generation.epoch)).bind(2, as_integer(generation.number)).step();
  if (!row) return Error{row.error()};
  if (!*row) return std::optional<GenerationRecord>();
  std::optional<GenerationRecord> found = record_of(find_);
  find_.reset();
  return found;
}

Result<uint64_t> Generations::added_in(wire::Generation generation, const std::string& list, const std::string& text,
                                       const GivenUp& is_given_up) {
  int64_t last = 0;
  {
    const Turn::Held held(*turn_);
    const Result<bool> row =
        last_id_in_.bind(1, as_integer(generation.number)).bind(2, as_integer(generation.epoch)).step();
    if (!row) return Error{row.error()};
    last = last_id_in_.integer(1);
    last_id_in_.reset();
  }
  for (; last > 0; last -= kRowsOfPage) {
    if (is_given_up && is_given_up()) return Error{kGivenUp};
    const Turn::Held held(*turn_);
    added_in_.bind(1, as_integer(generation.epoch)).bind(3, list).bind(4, text);
    const Result<bool> row = added_in_.bind(5, last - kRowsOfPage + 1).bind(6, last).step();
    if (!row) return Error{row.error()};
    if (!*row) continue;
    const auto number = static_cast<uint64_t>(added_in_.integer(1));
    added_in_.reset();
    return number;
  }
  return uint64_t{0};
}

Result<std::optional<GenerationRecord>> Generations::newest_by(uint64_t epoch, int64_t at) {
  const Turn::Held held(*turn_);
  const Result<bool> row = newest_by_.bind(1, as_integer(epoch)).bind(2, at).step();
  if (!row) return Error{row.error()};
  if (!*row) return std::optional<GenerationRecord>();
  std::optional<GenerationRecord> found = record_of(newest_by_);
  newest_by_.reset();
  return found;
}

Result<std::vector<GenerationRecord>> Generations::newest(uint64_t epoch, size_t most) {
  const Turn::Held held(*turn_);
  newest_.bind(1, as_integer(epoch)).bind(2, as_integer(most));
  std::vector<GenerationRecord> found;
  while (true) {
    const Result<bool> row = newest_.step();
    if (!row) return Error{row.error()};
    if (!*row) return found;
    found.push_back(record_of(newest_));
  }
}

Result<void> Generations::forget_before(wire::Generation generation) {
  const Turn::Held held(*turn_);
  Result<void> done =
      trim_.bind(1, as_integer(generation.epoch)).bind(2, as_integer(generation.number)).bind(3, kMost).run();
  if (!done) return done;
  if (done = trim_before_.bind(1, as_integer(generation.epoch)).run(); !done) return done;
  // Epochs follow each other: other ones have the oldest rows, if any.
  const Result<bool> row = oldest_epoch_.step();
  if (!row) return Error{row.error()};
  const bool is_of_another = *row && oldest_epoch_.integer(1) != as_integer(generation.epoch);
  oldest_epoch_.reset();
  return is_of_another ? trim_epochs_.bind(1, as_integer(generation.epoch)).run() : Result<void>();
}

Result<uint64_t> Generations::oldest_since(uint64_t epoch, int64_t at) {
  const Turn::Held held(*turn_);
  const Result<bool> row = oldest_since_.bind(1, as_integer(epoch)).bind(2, at).step();
  if (!row) return Error{row.error()};
  const auto number = static_cast<uint64_t>(oldest_since_.integer(1));
  oldest_since_.reset();
  return number;
}

Result<bool> Generations::forget_crowded(uint64_t epoch, int64_t most) {
  const Turn::Held held(*turn_);
  const Result<bool> row = crowded_.bind(1, as_integer(epoch)).bind(2, most).bind(3, most - most / 16).step();
  if (!row) return Error{row.error()};
  if (!*row) return false;
  auto first = static_cast<uint64_t>(crowded_.integer(1));
  crowded_.reset();
  const Result<std::vector<GenerationRecord>> last = newest(epoch, 2);
  if (!last) return Error{last.error()};
  if (last->empty()) return false;
  first = std::min(first, last->back().number);
  if (Result<void> done = forget_before({epoch, first}); !done) return Error{done.error()};
  return true;
}

Result<std::vector<uint64_t>> Generations::bases(uint64_t epoch) {
  const Turn::Held held(*turn_);
  bases_.bind(1, as_integer(epoch));
  std::vector<uint64_t> found;
  while (true) {
    const Result<bool> row = bases_.step();
    if (!row) return Error{row.error()};
    if (!*row) return found;
    found.push_back(static_cast<uint64_t>(bases_.integer(1)));
  }
}

Result<Generations::Ids> Generations::ids_after(uint64_t number) {
  const Turn::Held held(*turn_);
  const Result<bool> row = ids_after_.bind(1, as_integer(number)).step();
  if (!row) return Error{row.error()};
  const Ids ids{ids_after_.integer(1), ids_after_.integer(2)};
  ids_after_.reset();
  return ids.first == 0 ? Ids() : ids;
}

Result<void> Generations::visit_changes_after(wire::Generation generation,
                                              const std::function<Result<void>(const Before&)>& visit) {
  const Result<Ids> ids = ids_after(generation.number);
  if (!ids) return Error{ids.error()};
  for (int64_t last = ids->last; last >= ids->first; last -= kRowsOfPage) {
    std::vector<Before> page;
    {
      const Turn::Held held(*turn_);
      changes_after_.bind(1, as_integer(generation.epoch)).bind(2, as_integer(generation.number));
      changes_after_.bind(3, std::max(ids->first, last - kRowsOfPage + 1)).bind(4, last);
      while (true) {
        const Result<bool> row = changes_after_.step();
        if (!row) return Error{row.error()};
        if (!*row) break;
        page.push_back(before_of(changes_after_));
      }
    }
    for (const Before& before : page) {
      if (Result<void> visited = visit(before); !visited) return visited;
    }
  }
  return {};
}

Result<std::vector<int64_t>> Generations::first_changes(wire::Generation generation, const GivenUp& is_given_up,
                                                        Progress* progress) {
  struct Row {
    Digest entry;
    int64_t id;
  };
  const Result<Ids> ids = ids_after(generation.number);
  if (!ids) return Error{ids.error()};
  const int64_t rows = ids->last - ids->first + 1;
  if (progress != nullptr) progress->begin("read", "changes", static_cast<uint64_t>(rows));
  std::vector<Row> changes;
  changes.reserve(static_cast<size_t>(rows));
  for (int64_t first = ids->first; first <= ids->last; first += kRowsOfPage) {
    if (is_given_up && is_given_up()) return Error{kGivenUp};
    const Turn::Held held(*turn_);
    keys_after_.bind(1, as_integer(generation.epoch)).bind(2, as_integer(generation.number));
    keys_after_.bind(3, first).bind(4, std::min(ids->last, first + kRowsOfPage - 1));
    while (true) {
      const Result<bool> row = keys_after_.step();
      if (!row) return Error{row.error()};
      if (!*row) break;
      const std::string entry = keys_after_.text(2) + '\n' + keys_after_.text(3);
      changes.push_back({weir::digest_of(std::as_bytes(std::span(entry))), keys_after_.integer(1)});
    }
    if (progress != nullptr) progress->add(static_cast<uint64_t>(std::min(kRowsOfPage, ids->last - first + 1)));
  }
  std::sort(changes.begin(), changes.end(),
            [](const Row& a, const Row& b) { return a.entry != b.entry ? a.entry < b.entry : a.id < b.id; });
  const auto end =
      std::unique(changes.begin(), changes.end(), [](const Row& a, const Row& b) { return a.entry == b.entry; });
  std::vector<int64_t> firsts;
  firsts.reserve(static_cast<size_t>(end - changes.begin()));
  std::transform(changes.begin(), end, std::back_inserter(firsts), [](const Row& one) { return one.id; });
  std::sort(firsts.begin(), firsts.end());
  return firsts;
}

Result<std::optional<Generations::Before>> Generations::change(int64_t row) {
  const Turn::Held held(*turn_);
  const Result<bool> found = change_.bind(1, row).step();
  if (!found) return Error{found.error()};
  if (!*found) return std::optional<Before>();
  std::optional<Before> before = before_of(change_);
  change_.reset();
  return before;
}

Result<std::vector<Generations::Numbered>> Generations::changes_after(wire::Generation generation,
                                                                      const std::vector<std::string>& v4_texts,
                                                                      bool any_v6, const GivenUp& is_given_up) {
  std::string texts = " ";
  for (const std::string& text : v4_texts) texts += text + " ";
  const Result<Ids> ids = ids_after(generation.number);
  if (!ids) return Error{ids.error()};
  std::vector<Numbered> found;
  for (int64_t first = ids->first; first <= ids->last; first += kRowsOfPage) {
    if (is_given_up && is_given_up()) return Error{kGivenUp};
    const Turn::Held held(*turn_);
    changes_of_.bind(1, as_integer(generation.epoch)).bind(2, as_integer(generation.number)).bind(3, texts);
    changes_of_.bind(4, int64_t{any_v6}).bind(5, first).bind(6, std::min(ids->last, first + kRowsOfPage - 1));
    while (true) {
      const Result<bool> row = changes_of_.step();
      if (!row) return Error{row.error()};
      if (!*row) break;
      found.push_back({static_cast<uint64_t>(changes_of_.integer(8)), before_of(changes_of_)});
    }
    if (found.size() > kMostFound) {
      return Error{
          fmt::format("more than {} changes of entries since then may be about it: ask for a later time", kMostFound)};
    }
  }
  return found;
}

Result<std::string> Generations::note(const std::string& name) {
  const Turn::Held held(*turn_);
  const Result<bool> row = note_.bind(1, name).step();
  if (!row) return Error{row.error()};
  if (!*row) return std::string();
  std::string text = note_.text(1);
  note_.reset();
  return text;
}

Result<void> Generations::set_note(const std::string& name, const std::string& text) {
  const Turn::Held held(*turn_);
  return set_note_.bind(1, name).bind(2, text).run();
}

}  // namespace weir::control
