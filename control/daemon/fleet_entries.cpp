#include "control/daemon/fleet_entries.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "common/clock.h"
#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/entry_line.h"

namespace weir::control {
namespace {

constexpr size_t kMostAtOnce = 5000;  // entries of a change
constexpr size_t kJournalPage = 10'000;
constexpr size_t kMostOfList = 1'000'000;
constexpr int64_t kSameTime_s = 3;                // what is left of a lease is told in whole seconds
constexpr std::chrono::seconds kRefusedRest{30};  // what was refused
constexpr size_t kMostTold = 20;                  // of what was refused, between two rests; status counts all
constexpr std::chrono::seconds kReadRest{1};      // a journal that could not be read

const List* find_list(const Running& running, const std::string& name) {
  for (const List& list : *running.book) {
    if (list.name == name) return list.dynamic ? &list : nullptr;
  }
  return nullptr;
}

}  // namespace

FleetEntries::FleetEntries(Loop& loop, Daemon& daemon, std::function<void()> changed)
    : loop_(loop),
      daemon_(daemon),
      changed_(std::move(changed)),
      mailbox_(loop),
      most_at_once_(kMostAtOnce),
      clock_(unix_now() - boot_now()) {
  find_unread();
  go_on();
}

// An earlier life of this node may have taken entries from the fleet, also into lists that a later revision brings
// back.
void FleetEntries::find_unread() {
  for (const ListSummary& list : daemon_.running()->lists) {
    if (list.dynamic && known_.insert(list.name).second) unread_.push_back(list.name);
  }
}

// Pages of an earlier reading are dropped. A change that runs ends before the first page is read.
void FleetEntries::went_back() {
  readings_++;
  has_.clear();
  known_.clear();
  unread_.clear();
  read_to_.clear();
  read_again_.reset();
  is_reading_ = false;
  find_unread();
  unread_.empty() ? look_at_all() : go_on();
}

void FleetEntries::read_page() {
  is_reading_ = true;
  daemon_.read_added(unread_.front(), read_to_, kJournalPage,
                     [this, list = unread_.front(), reading = readings_,
                      alive = mailbox_.token()](const Result<std::vector<JournalEntry>>& page) {
                       if (*alive && reading == readings_) take_page(list, page);
                     });
}

void FleetEntries::take_page(const std::string& list, const Result<std::vector<JournalEntry>>& page) {
  if (!page) {
    log::warning("fleet: the journal is not read", {{"list", list}, {"error", page.error()}});
    read_again_ = loop_.timer(Clock::now() + kReadRest, [this] { read_page(); });
    return;
  }
  for (const JournalEntry& one : *page) {
    if (one.uid != kFleetUser) continue;
    has_[list][one.text] = {one.expires == kNever ? 0 : int64_t{one.expires}, one.comment};
  }
  is_reading_ = false;
  if (page->size() == kJournalPage) {
    read_to_ = page->back().text;
  } else {
    read_to_.clear();
    unread_.pop_front();
  }
  unread_.empty() ? look_at_all() : go_on();
}

std::string FleetEntries::text_in(const std::string& list, const std::string& text) const {
  const List* there = find_list(*daemon_.running(), list);
  if (there == nullptr) return text;
  ListDraft draft;
  draft.match = there->match;
  const Result<std::string> read = read_entry_line(text, there->dynamic->allow_any, draft);
  return read ? *read : text;
}

void FleetEntries::take(const fleet::News& news) {
  look_at_clock();  // what comes now is reckoned from the clock as it is, and may not be moved by a jump before it
  if (news.is_whole && !std::exchange(is_whole_, true)) whole_.clear();
  std::map<std::string, Entries>& into = news.is_whole ? whole_ : wanted_;
  for (const fleet::EntryNews& one : news.entries) {
    const std::string text = text_in(one.list, one.entry);
    if (!news.is_whole) {
      due_[one.list].insert(text);
      refused_[one.list].erase(text);
    }
    Entries& entries = into[one.list];
    if (one.is_gone) {
      entries.erase(text);
    } else if (entries.size() < kMostOfList || entries.contains(text)) {
      const uint64_t ttl_s = std::min<uint64_t>(one.ttl_s, UINT32_MAX);
      entries[text] = {ttl_s == 0 ? 0 : unix_now() + static_cast<int64_t>(ttl_s), one.comment};
    }
  }
  if (!news.is_last) return;
  heard_at_ = std::max(heard_at_, news.at);
  if (!news.is_whole) return go_on();
  // The store may have been restored from a backup: its revisions may be earlier ones.
  heard_at_ = news.at;
  counts_.at = std::min(counts_.at, heard_at_);
  wanted_ = std::exchange(whole_, {});
  is_whole_ = false;
  refused_.clear();
  look_at_all();
}

void FleetEntries::lists_changed() {
  refused_.clear();
  // Their entries may be called otherwise.
  std::map<std::string, Entries> wanted;
  for (auto& [list, entries] : wanted_) {
    for (auto& [text, entry] : entries) wanted[list][text_in(list, text)] = std::move(entry);
  }
  wanted_ = std::move(wanted);
  find_unread();
  look_at_all();
}

// etcd tells how long an entry stays, and its end is an event of etcd. The time of the day at which that is expected
// moves along with the clock, so that none ends because the clock jumped.
void FleetEntries::look_at_clock() {
  const int64_t clock = unix_now() - boot_now(), jump = clock - clock_;
  if (std::abs(jump) <= kSameTime_s) return;
  clock_ = clock;
  log::warning("fleet: the clock of this node has jumped", {{"seconds", jump}});
  for (std::map<std::string, Entries>* all : {&wanted_, &whole_}) {
    for (auto& [list, entries] : *all) {
      for (auto& [text, entry] : entries) {
        if (entry.expires != 0) entry.expires += jump;
      }
    }
  }
  look_at_all();
}

const FleetEntries::Wanted* FleetEntries::find_in(const std::map<std::string, Entries>& all, const std::string& list,
                                                  const std::string& text) {
  const auto entries = all.find(list);
  if (entries == all.end()) return nullptr;
  const auto entry = entries->second.find(text);
  return entry == entries->second.end() ? nullptr : &entry->second;
}

bool FleetEntries::is_done(const std::string& list, const std::string& text) const {
  const Wanted *wanted = find_in(wanted_, list, text), *has = find_in(has_, list, text);
  if (wanted == nullptr) return has == nullptr;
  if (wanted->expires != 0 && wanted->expires <= unix_now()) return true;  // its end comes as an event
  return has != nullptr && (wanted->expires == 0) == (has->expires == 0) &&
         std::abs(wanted->expires - has->expires) <= kSameTime_s;
}

void FleetEntries::look_at_all() {
  for (const std::map<std::string, Entries>* all : {&wanted_, &has_}) {
    for (const auto& [list, entries] : *all) {
      for (const auto& [text, entry] : entries) {
        if (!is_done(list, text)) due_[list].insert(text);
      }
    }
  }
  go_on();
}

void FleetEntries::go_on() {
  if (is_reading_ || is_changing_) return;
  if (!unread_.empty()) return read_page();
  if (heard_at_ == 0) return;
  if (const std::optional<Batch> batch = next_batch()) return change(*batch);
  count();
}

// By what is wanted and by the lists as they are now. Empty: nothing is left to do.
std::optional<FleetEntries::Batch> FleetEntries::next_batch() {
  const auto running = daemon_.running();
  for (auto& [list, texts] : due_) {
    if (find_list(*running, list) == nullptr) {  // they wait for a revision that has it
      texts.clear();
      continue;
    }
    const auto refused = refused_.find(list);
    Batch batch = {list, false, {}};
    for (auto text = texts.begin(); text != texts.end() && batch.entries.size() < most_at_once_;) {
      if (is_done(list, *text) || (refused != refused_.end() && refused->second.contains(*text))) {
        text = texts.erase(text);
        continue;
      }
      const Wanted* wanted = find_in(wanted_, list, *text);
      if (batch.entries.empty()) batch.is_add = wanted != nullptr;
      if ((wanted != nullptr) == batch.is_add) batch.entries.emplace_back(*text, wanted ? *wanted : Wanted());
      ++text;
    }
    if (!batch.entries.empty()) return batch;
  }
  return std::nullopt;
}

void FleetEntries::change(const Batch& batch) {
  Change change;
  change.list = batch.list;
  change.uid = kFleetUser;
  change.verb = batch.is_add ? Change::Verb::add : Change::Verb::del;
  const List* list = find_list(*daemon_.running(), batch.list);
  const uint64_t most_ttl_s = list == nullptr ? 0 : list->dynamic->max_ttl_s;
  const int64_t now = unix_now();
  for (const auto& [text, wanted] : batch.entries) {
    change.entries.push_back(text);
    if (!batch.is_add) continue;
    uint64_t left_s = wanted.expires == 0 ? 0 : static_cast<uint64_t>(std::max<int64_t>(1, wanted.expires - now));
    if (most_ttl_s != 0 && left_s > most_ttl_s) left_s = most_ttl_s;
    change.ttls.push_back(left_s);
    change.comments.push_back(wanted.comment);
  }
  is_changing_ = true;
  daemon_.change(std::move(change), [this, batch, alive = mailbox_.token()](const ChangeAnswer& report) {
    // Later: a daemon that cannot change anything answers at once, and each answer would ask for the next change.
    if (*alive) mailbox_.post([this, batch, report] { take_report(batch, report); });
  });
}

// Meanwhile the fleet may want something else, and the lists may be others: only the batch tells what was asked for.
void FleetEntries::take_report(const Batch& batch, const ChangeAnswer& report) {
  is_changing_ = false;
  std::set<std::string>& due = due_[batch.list];
  for (const auto& [text, wanted] : batch.entries) due.insert(text);  // is_done() tells which of them are done
  if (report.generation.number != 0) {
    Entries& has = has_[batch.list];
    for (const auto& [text, wanted] : batch.entries) {
      if (batch.is_add) {
        has[text] = wanted;
      } else {
        has.erase(text);
      }
    }
    most_at_once_ = std::min(2 * most_at_once_, kMostAtOnce);
    return go_on();
  }
  if (batch.entries.size() > 1) {  // one of them is wrong: half as many, until it stands alone
    most_at_once_ = batch.entries.size() / 2;
    return go_on();
  }
  const auto& [text, asked] = batch.entries.front();
  const Wanted* wanted = find_in(wanted_, batch.list, text);
  const bool is_wanted_still = (wanted != nullptr) == batch.is_add && (wanted == nullptr || *wanted == asked);
  if (!is_wanted_still) return go_on();
  if (n_told_++ < kMostTold) {
    log::warning("fleet: an entry is not taken", {{"list", batch.list}, {"entry", text}, {"error", report.error}});
  }
  refused_[batch.list].insert(text);
  if (!again_) {
    again_ = loop_.timer(Clock::now() + kRefusedRest, [this] {
      again_.reset();
      n_told_ = 0;
      refused_.clear();
      look_at_all();
    });
  }
  go_on();
}

void FleetEntries::count() {
  Counts now;
  now.at = heard_at_;
  const auto running = daemon_.running();
  for (const auto& [list, entries] : has_) now.held += entries.size();
  for (const auto& [list, texts] : refused_) now.refused += texts.size();
  for (const auto& [list, entries] : wanted_) {
    if (find_list(*running, list) == nullptr) now.refused += entries.size();
  }
  const bool is_news = now.held != counts_.held || now.refused != counts_.refused || now.at != counts_.at;
  counts_ = now;
  if (is_news) changed_();
}

}  // namespace weir::control
