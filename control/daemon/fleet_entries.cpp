#include "control/daemon/fleet_entries.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/read/entry_line.h"

namespace weir::control {
namespace {

constexpr size_t kMostAtOnce = 5000;  // entries of a change
constexpr size_t kJournalPage = 10'000;
constexpr size_t kMostOfList = 1'000'000;
constexpr int64_t kSameTime_s = 3;                // what is left of a lease is told in whole seconds
constexpr std::chrono::seconds kRefusedRest{30};  // what was refused

// Of the boot, in seconds; time in which the machine slept counts.
int64_t since_boot() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec;
}

int64_t clock_of_day() {
  return static_cast<int64_t>(unix_now());
}

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
      clock_(clock_of_day() - since_boot()) {
  read_journal("", "");
}

// What an earlier life of this node took from the fleet, list by list.
void FleetEntries::read_journal(const std::string& list, const std::string& after) {
  const auto& lists = daemon_.running()->lists;
  auto at = lists.begin();
  if (!list.empty()) {
    at = std::find_if(lists.begin(), lists.end(), [&](const ListSummary& one) { return one.name == list; });
  }
  while (at != lists.end() && !at->dynamic) ++at;
  if (at == lists.end()) return end_reading();
  const std::string name = at->name, next = std::next(at) == lists.end() ? "" : std::next(at)->name;
  daemon_.read_added(name, name == list ? after : "", kJournalPage,
                     [this, name, next, alive = mailbox_.token()](const Result<std::vector<JournalEntry>>& added) {
                       if (!*alive) return;
                       if (!added) log::warning("fleet: the journal is not read", {{"error", added.error()}});
                       const size_t n = added ? added->size() : 0;
                       for (size_t i = 0; i < n; i++) {
                         const JournalEntry& one = (*added)[i];
                         if (one.uid != kFleetUser) continue;
                         has_[name][one.text] = {one.expires == kNever ? 0 : int64_t{one.expires}, one.comment};
                       }
                       if (n == kJournalPage) return read_journal(name, added->back().text);
                       if (next.empty()) return end_reading();
                       read_journal(next, "");
                     });
}

void FleetEntries::end_reading() {
  is_journal_read_ = true;
  look_at_all();
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
      entries[text] = {one.ttl_s == 0 ? 0 : clock_of_day() + static_cast<int64_t>(one.ttl_s), one.comment};
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
  look_at_all();
}

// etcd tells how long an entry stays, and its end is an event of etcd. The time of the day at which that is expected
// moves along with the clock, so that none ends because the clock jumped.
void FleetEntries::look_at_clock() {
  const int64_t clock = clock_of_day() - since_boot(), jump = clock - clock_;
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

bool FleetEntries::is_done(const std::string& list, const std::string& text) const {
  const auto find = [&](const std::map<std::string, Entries>& in) -> const Wanted* {
    const auto entries = in.find(list);
    if (entries == in.end()) return nullptr;
    const auto entry = entries->second.find(text);
    return entry == entries->second.end() ? nullptr : &entry->second;
  };
  const Wanted *wanted = find(wanted_), *has = find(has_);
  if (wanted == nullptr) return has == nullptr;
  if (wanted->expires != 0 && wanted->expires <= clock_of_day()) return true;  // its end comes as an event
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
  if (!is_journal_read_ || is_changing_ || heard_at_ == 0) return;
  const auto running = daemon_.running();
  for (auto& [list, texts] : due_) {
    std::set<std::string>& refused = refused_[list];
    std::erase_if(texts,
                  [&, &name = list](const std::string& text) { return refused.contains(text) || is_done(name, text); });
    if (texts.empty()) continue;
    if (find_list(*running, list) == nullptr) {  // they wait for a revision that has it
      texts.clear();
      continue;
    }
    std::vector<std::string> some;
    const bool is_add = wanted_[list].contains(*texts.begin());
    for (const std::string& text : texts) {
      if (wanted_[list].contains(text) == is_add && some.size() < kMostAtOnce) some.push_back(text);
    }
    if (change(list, some)) return;
  }
  count();
}

// All of these are to come, or all are to go. False: nothing was begun.
bool FleetEntries::change(const std::string& list, const std::vector<std::string>& texts) {
  Change change;
  change.list = list;
  change.uid = kFleetUser;
  change.entries = texts;
  change.verb = wanted_[list].contains(texts.front()) ? Change::Verb::add : Change::Verb::del;
  Entries then;
  if (change.verb == Change::Verb::add) {
    const uint64_t most_ttl_s = find_list(*daemon_.running(), list)->dynamic->max_ttl_s;
    const int64_t now = clock_of_day();
    for (const std::string& text : texts) {
      const Wanted& wanted = then[text] = wanted_[list][text];
      uint64_t left_s = wanted.expires == 0 ? 0 : static_cast<uint64_t>(std::max<int64_t>(1, wanted.expires - now));
      if (most_ttl_s != 0 && left_s > most_ttl_s) left_s = most_ttl_s;
      change.ttls.push_back(left_s);
      change.comments.push_back(wanted.comment);
    }
  }
  is_changing_ = true;
  daemon_.change(change, [this, change, then = std::move(then), alive = mailbox_.token()](const ChangeReport& report) {
    if (!*alive) return;
    is_changing_ = false;
    if (report.error.empty() || !report.targets.empty()) {
      Entries& has = has_[change.list];
      for (const std::string& text : change.entries) {
        if (change.verb == Change::Verb::del) {
          has.erase(text);
        } else {
          has[text] = then.at(text);
        }
      }
      return go_on();
    }
    if (change.entries.size() > 1) {  // one of them is wrong: halves, until it stands alone
      const auto half = change.entries.begin() + static_cast<std::ptrdiff_t>(change.entries.size() / 2);
      (void)this->change(change.list, {change.entries.begin(), half});
      return;
    }
    log::warning("fleet: an entry is not taken",
                 {{"list", change.list}, {"entry", change.entries[0]}, {"error", report.error}});
    refused_[change.list].insert(change.entries[0]);
    if (!again_) {
      again_ = loop_.timer(Clock::now() + kRefusedRest, [this] {
        again_.reset();
        refused_.clear();
        look_at_all();
      });
    }
    go_on();
  });
  return true;
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
