#include "control/lists/journal/change.h"

#include <fmt/format.h>

#include <algorithm>

#include "control/lists/book/holders.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/entry_line.h"
#include "control/policy/read/feed_file.h"

namespace weir::control {
namespace {

// A clock that is set back by less does not miss what was swept.
constexpr uint64_t kSweepAfter_s = 60;
// The search for other holders looks at so many entries of a change: each costs a pass over all flows.
constexpr size_t kMostLooked = 100;

template <class Addr>
void mark(std::vector<Entry<Addr>>& entries, uint32_t expires) {
  for (Entry<Addr>& entry : entries) {
    entry.source = kJournalSource;
    entry.expires = expires;
  }
}

// Reads the text as an entry of the journal: appends it as the list's content is to hold it.
class EntryOfJournal {
 public:
  explicit EntryOfJournal(const List& list) : list_(list) { draft_.match = list.match; }

  Result<std::string> read(const std::string& text) {
    draft_.v4.clear();
    draft_.v6.clear();
    draft_.flows.clear();
    Result<std::string> canonical = read_entry_line(text, list_.dynamic && list_.dynamic->allow_any, draft_);
    if (!canonical) return canonical;
    with_side_.clear();
    if (!draft_.v4.empty()) with_side_ = text_with_side(draft_.v4.front());
    if (!draft_.v6.empty()) with_side_ = text_with_side(draft_.v6.front());
    is_widened_ = aggregate_ipv6(draft_, list_.ipv6_aggregate) != 0;
    return canonical;
  }
  // The entry that ipv6_aggregate made of the one read last. Empty: it stayed as written.
  std::string enforced_as() const {
    if (!is_widened_) return "";
    return draft_.v6.empty() ? flow_line(draft_.flows.front()) : entry_text(draft_.v6.front(), list_.match);
  }
  // What was read last, as older journals may have it: with its side, though the list says it. Empty: there is no other
  // text.
  const std::string& with_side() const { return with_side_; }
  // What was read last.
  void append_to(ListDraft& draft, uint32_t expires) {
    mark(draft_.v4, expires);
    mark(draft_.v6, expires);
    for (Flow& flow : draft_.flows) {
      flow.source = kJournalSource;
      flow.expires = expires;
    }
    draft.v4.insert(draft.v4.end(), draft_.v4.begin(), draft_.v4.end());
    draft.v6.insert(draft.v6.end(), draft_.v6.begin(), draft_.v6.end());
    draft.flows.insert(draft.flows.end(), draft_.flows.begin(), draft_.flows.end());
  }
  const ListDraft& draft() const { return draft_; }

 private:
  template <class Addr>
  std::string text_with_side(const Entry<Addr>& entry) const {
    const bool has_one = entry.sides() == WEIR_AS_SOURCE || entry.sides() == WEIR_AS_DESTINATION;
    return has_one && entry.sides() == list_.match ? entry_text(entry, 0) : "";
  }

  const List& list_;
  ListDraft draft_;
  std::string with_side_;
  bool is_widened_ = false;
};

Result<uint32_t> expiry_of(std::optional<uint64_t> wanted, const List& list, uint64_t now) {
  const uint64_t most = list.dynamic->max_ttl_s;
  const uint64_t ttl = wanted.value_or(most);
  if (wanted && (ttl == 0 || ttl > Change::kMostTtl_s)) {
    return Error{fmt::format("a time to live is 1 second to {}: {} is not\nhint: leave it out for entries that stay",
                             Change::kMostTtl_s, ttl)};
  }
  if (most != 0 && ttl > most) {
    return Error{
        fmt::format("{} seconds are more than entries of list {} may stay: {}\nhint: give a shorter time, or "
                    "raise `max_ttl` in the policy",
                    ttl, list.name, most)};
  }
  if (ttl == 0 || now + ttl >= kNever) return kNever;
  return static_cast<uint32_t>(now + ttl);
}

std::string long_comment(const std::string& comment) {
  return fmt::format("a comment has at most {} bytes: this one has {}", Change::kMostComment, comment.size());
}

std::string still_held_text(const std::string& entry, const List& list, const std::string& holder) {
  return fmt::format("{} by list {}: {}", entry, list.name, holder);
}

// Why an entry that a drop list has just got does not drop. Empty: nothing lets it through.
std::string passes_by(const Book& book, const List& list, const ListDraft& entry, uint64_t now) {
  if (list.own != nullptr) {
    if (const std::string own = own_holder_of(*list.own, entry); !own.empty()) return "policy.own: " + own;
  }
  for (const List& other : book) {
    if (other.action != WEIR_PASS || other.mode != WEIR_ENFORCE) continue;
    const std::string holder = holder_of(other, entry, {.on_all_sides = true, .until = now + 1});
    if (!holder.empty()) return fmt::format("list {}: {}", other.name, holder);
  }
  return "";
}

class Changer {
 public:
  Changer(const Change& change, const List& list, uint64_t now, Journal& journal, EntriesEdit& edit)
      : change_(change), list_(list), now_(now), journal_(journal), edit_(edit), entry_(list) {}

  Result<ChangeCounts> run() {
    if (change_.verb == Change::Verb::flush) return flush();
    const Result<uint32_t> usual = expiry_of(change_.ttl_s, list_, now_);
    if (!usual) return Error{usual.error()};
    for (size_t i = 0; i < change_.entries.size(); i++) {
      const bool has_ttl = !change_.ttls.empty() && change_.ttls[i] != 0;
      const Result<uint32_t> expires = has_ttl ? expiry_of(change_.ttls[i], list_, now_) : usual;
      const bool has_comment = !change_.comments.empty() && !change_.comments[i].empty();
      comment_ = has_comment ? &change_.comments[i] : &change_.comment;
      const Result<void> done = expires ? one(change_.entries[i], *expires) : Result<void>(Error{expires.error()});
      if (done) continue;
      if (change_.entries.size() == 1) return Error{done.error()};
      return Error{fmt::format("entry {} of {}: {}", i + 1, change_.entries.size(), done.error())};
    }
    if (change_.verb != Change::Verb::add) return counts_;
    Result<uint64_t> n = journal_.count(list_.name);
    if (n && *n > list_.dynamic->max_entries) n = count_without_ended(*n);
    if (!n) return Error{n.error()};
    if (*n > list_.dynamic->max_entries) {
      return Error{
          fmt::format("list {} would have {} added entries, and {} are allowed\nhint: delete some, let them "
                      "expire (--ttl), or raise `max_entries` in the policy",
                      list_.name, *n, list_.dynamic->max_entries)};
    }
    return counts_;
  }

 private:
  // Those that ended make room, without waiting for the sweep.
  Result<uint64_t> count_without_ended(uint64_t n) {
    const auto ended = journal_.sweep_list(list_.name, now_, n - list_.dynamic->max_entries);
    if (!ended) return Error{ended.error()};
    for (const Journal::Ended& one : *ended) {
      if (entry_.read(one.text)) entry_.append_to(edit_.removed, one.expires);
    }
    return n - ended->size();
  }

  Result<void> one(const std::string& text, uint32_t expires) {
    const Result<std::string> canonical = entry_.read(text);
    if (!canonical) return Error{canonical.error()};
    const Result<std::optional<JournalEntry>> there = journal_.find(list_.name, *canonical);
    if (!there) return Error{there.error()};
    const Result<std::optional<JournalEntry>> older = take_with_side();
    if (!older) return Error{older.error()};
    const Was was = {*there, *there || *older, (*there && is_live(**there)) || (*older && is_live(**older))};
    return change_.verb == Change::Verb::add ? add(*canonical, was, expires) : del(*canonical, was);
  }

  bool is_live(const JournalEntry& entry) const { return entry.expires == kNever || now_ < entry.expires; }

  // What the journal has of an entry.
  struct Was {
    const std::optional<JournalEntry>& there;  // under its own text
    bool is_known, is_live;                    // under that or the older one
  };

  // Takes out what the journal has of the entry under its older text.
  Result<std::optional<JournalEntry>> take_with_side() {
    std::optional<JournalEntry> none;
    if (entry_.with_side().empty()) return none;
    if (!has_sides_) {
      const Result<bool> found = has_sides();
      if (!found) return Error{found.error()};
      has_sides_ = *found;
    }
    if (!*has_sides_) return none;
    Result<std::optional<JournalEntry>> older = journal_.find(list_.name, entry_.with_side());
    if (!older || !*older) return older;
    entry_.append_to(edit_.removed, (*older)->expires);
    if (Result<void> gone = journal_.erase(list_.name, entry_.with_side()); !gone) return Error{gone.error()};
    return older;
  }

  // Whether the list has entries that begin with their side: most have none, and need not be asked for each.
  Result<bool> has_sides() {
    for (const char* side : {"src ", "dst "}) {
      const Result<std::vector<JournalEntry>> first = journal_.page(list_.name, side, 1);
      if (!first) return Error{first.error()};
      if (!first->empty() && first->front().text.starts_with(side)) return true;
    }
    return false;
  }

  Result<void> add(const std::string& text, const Was& was, uint32_t expires) {
    (was.is_live ? counts_.renewed : counts_.added)++;
    if (const std::string enforced = entry_.enforced_as(); !enforced.empty()) {
      counts_.widened++;
      if (counts_.widened_texts.size() < kMostTexts) {
        counts_.widened_texts.push_back(
            fmt::format("{} is enforced as {} (ipv6_aggregate: {})", text, enforced, list_.ipv6_aggregate));
      }
    }
    if (!was.there || was.there->expires != expires) {
      if (was.there) entry_.append_to(edit_.removed, was.there->expires);
      entry_.append_to(edit_.added, expires);
    }
    return journal_.put(list_.name, {text, static_cast<int64_t>(now_), expires, change_.uid, *comment_}, was.there);
  }

  Result<void> del(const std::string& text, const Was& was) {
    if (was.is_known) {
      (was.is_live ? counts_.deleted : counts_.missing)++;
      if (counts_.still_held.empty() && n_looked_++ < kMostLooked) {
        const std::string holder = held_by_file();
        if (!holder.empty()) counts_.still_held = still_held_text(text, list_, holder);
      }
      if (!was.there) return {};
      entry_.append_to(edit_.removed, was.there->expires);
      return journal_.erase(list_.name, text);
    }
    if (const std::string holder = held_by_file(); !holder.empty()) {
      return Error{
          fmt::format("{} was not added by `controlctl add`: list {} holds it by {}\nhint: take it out there, "
                      "or add it to a list with `action: pass`, which always wins",
                      text, list_.name, holder)};
    }
    counts_.missing++;
    return {};
  }

  std::string held_by_file() const {
    return holder_of(list_, entry_.draft(), {.of_files_alone = true, .until = now_ + 1});
  }

  Result<ChangeCounts> flush() {
    std::vector<std::pair<std::string, uint32_t>> all;
    Result<void> visited =
        journal_.visit(list_.name, [&](const JournalEntry& entry) { all.emplace_back(entry.text, entry.expires); });
    if (!visited) return Error{visited.error()};
    for (const auto& [text, expires] : all) {
      counts_.deleted++;
      if (entry_.read(text)) entry_.append_to(edit_.removed, expires);
      if (Result<void> gone = journal_.erase(list_.name, text); !gone) return Error{gone.error()};
    }
    return counts_;
  }

  const Change& change_;
  const List& list_;
  const uint64_t now_;
  Journal& journal_;
  EntriesEdit& edit_;
  EntryOfJournal entry_;
  const std::string* comment_ = &change_.comment;  // of the entry that is added
  ChangeCounts counts_;
  std::optional<bool> has_sides_;
  size_t n_looked_ = 0;
};

template <class Addr>
void append_texts(const List& list, const Rows<Addr>& rows, std::vector<JournalEntry>& entries) {
  if (rows.source.each.empty() && rows.source.all != kJournalSource) return;
  for (const Entry<Addr> entry : rows) {
    if (entry.source != kJournalSource) continue;
    entries.push_back({entry_text(entry, list.match), 0, entry.expires});
  }
}

}  // namespace

Result<const List*> list_of(const Change& change, const Book& book) {
  std::string dynamic, meant;  // their names
  size_t n_meant = 0;
  const List* found = nullptr;
  for (const List& list : book) {
    const bool is_meant = change.list.empty() ? list.dynamic && list.action == change.action : list.name == change.list;
    if (is_meant) {
      found = &list;
      n_meant++;
      meant += (meant.empty() ? "" : ", ") + list.name;
    }
    if (list.dynamic) dynamic += (dynamic.empty() ? "" : ", ") + list.name;
  }
  if (dynamic.empty()) {
    return Error{"no list of the policy may be changed so\nhint: write `dynamic: true` in a list, and reload"};
  }
  if (change.list.empty()) {
    if (n_meant == 1) return found;
    const char* action = change.action == WEIR_PASS ? "pass" : "drop";
    if (n_meant == 0) {
      return Error{
          fmt::format("no dynamic list has `action: {}`\nhint: name the list with --list: {}", action, dynamic)};
    }
    return Error{fmt::format(
        "several dynamic lists have `action: {}`: which one is meant?\nhint: name one with --list: {}", action, meant)};
  }
  if (found == nullptr) {
    return Error{fmt::format("no list is called '{}'\nhint: dynamic lists are: {}", change.list, dynamic)};
  }
  if (!found->dynamic) {
    return Error{fmt::format("list {} is not dynamic\nhint: write `dynamic: true` in it and reload, or take one of: {}",
                             found->name, dynamic)};
  }
  return found;
}

Result<ChangeCounts> apply(const Change& change, const List& list, uint64_t now, Journal& journal, EntriesEdit& edit) {
  if (change.verb != Change::Verb::flush && change.entries.empty()) return Error{"no entry is given"};
  if (change.entries.size() > Change::kMostEntries) {
    return Error{fmt::format("{} entries are more than are taken at once: {}\nhint: give them in parts",
                             change.entries.size(), Change::kMostEntries)};
  }
  if (change.comment.size() > Change::kMostComment) {
    return Error{long_comment(change.comment)};
  }
  const auto fits = [&](size_t n) { return n == 0 || n == change.entries.size(); };
  if (!fits(change.ttls.size()) || !fits(change.comments.size())) {
    return Error{
        fmt::format("{} entries have {} times to live and {} comments of their own\nhint: give one for each "
                    "entry, or none",
                    change.entries.size(), change.ttls.size(), change.comments.size())};
  }
  for (const std::string& comment : change.comments) {
    if (comment.size() > Change::kMostComment) return Error{long_comment(comment)};
  }
  return Changer(change, list, now, journal, edit).run();
}

void look_elsewhere(const Change& change, const List& list, const Book& book, uint64_t now, ChangeCounts& counts) {
  const bool adds = change.verb == Change::Verb::add && list.action == WEIR_DROP;
  const bool deletes = change.verb == Change::Verb::del;
  if (!adds && !deletes) return;
  for (size_t i = 0; i < std::min(change.entries.size(), kMostLooked); i++) {
    ListDraft entry;  // as it is written: a wider one may be enforced
    entry.match = list.match;
    const Result<std::string> text = read_entry_line(change.entries[i], list.dynamic && list.dynamic->allow_any, entry);
    if (!text) continue;
    if (adds) {
      const std::string why = passes_by(book, list, entry, now);
      if (!why.empty()) counts.still_passes.push_back(fmt::format("{} by {}", *text, why));
      if (counts.still_passes.size() == kMostTexts) return;
      continue;
    }
    for (const List& other : book) {
      if (!counts.still_held.empty()) return;
      if (&other == &list || other.action != list.action || other.mode != WEIR_ENFORCE) continue;
      const std::string holder = holder_of(other, entry, {.until = now + 1});
      if (!holder.empty()) counts.still_held = still_held_text(*text, other, holder);
    }
  }
}

Result<ListDraft> journal_of(const List& list, uint64_t now, Journal& journal) {
  ListDraft draft;
  if (!list.dynamic) return draft;
  EntryOfJournal reader(list);
  Result<void> visited = journal.visit(list.name, [&](const JournalEntry& entry) {
    if (entry.expires != kNever && entry.expires <= now) return;
    if (reader.read(entry.text)) reader.append_to(draft, entry.expires);
  });
  if (!visited) return Error{visited.error()};
  return draft;
}

Result<void> sweep(const Book& book, uint64_t now, Journal& journal, std::vector<EntriesEdit>& edits) {
  if (now < kSweepAfter_s) return {};
  const Result<std::vector<Journal::Ended>> ended = journal.sweep(now - kSweepAfter_s);
  if (!ended) return Error{ended.error()};
  for (const Journal::Ended& one : *ended) {
    const auto list = std::find_if(book.begin(), book.end(), [&](const List& each) { return each.name == one.list; });
    if (list == book.end() || !list->dynamic) continue;
    EntryOfJournal reader(*list);
    if (reader.read(one.text)) reader.append_to(edits[static_cast<size_t>(list - book.begin())].removed, one.expires);
  }
  return {};
}

bool append_added(const List& list, const std::string& text, uint32_t expires, ListDraft& draft) {
  EntryOfJournal reader(list);
  if (!reader.read(text)) return false;
  reader.append_to(draft, expires);
  return true;
}

std::string enforced_as(const List& list, const std::string& text) {
  if (list.ipv6_aggregate == 128) return "";
  EntryOfJournal reader(list);
  return reader.read(text) ? reader.enforced_as() : "";
}

std::vector<JournalEntry> texts_of_added(const List& list) {
  std::vector<JournalEntry> entries;
  const Entries& written = *list.as_written();
  append_texts(list, written.v4, entries);
  append_texts(list, written.v6, entries);
  for (Flow flow : written.flows) {
    if (flow.source != kJournalSource) continue;
    const uint32_t expires = std::exchange(flow.expires, kNever);
    entries.push_back({flow_line(flow), 0, expires});
  }
  return entries;
}

Result<void> restore(const Book& book, uint64_t now, Journal& journal) {
  for (const List& list : book) {
    for (JournalEntry& entry : texts_of_added(list)) {
      entry.added_at = static_cast<int64_t>(now);
      if (Result<void> put = journal.put(list.name, entry); !put) return put;
    }
  }
  return {};
}

}  // namespace weir::control
