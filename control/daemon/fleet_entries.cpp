#include "control/daemon/fleet_entries.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "common/clock.h"
#include "common/log/log.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/entry_line.h"

namespace weir::control {
namespace {

// A change has 5,000 entries at most, and change() cuts times to the list's max_ttl. It never gives up.
constexpr FollowedList::Limits kLimits = {UINT64_MAX, 0, 5000, UINT_MAX};
constexpr size_t kJournalPage = 10'000;
constexpr size_t kMostOfList = 1'000'000;
constexpr int64_t kJump_s = 3;                    // of the clock; less counts as none
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
    : loop_(loop), daemon_(daemon), changed_(std::move(changed)), mailbox_(loop), clock_(unix_now() - boot_now()) {
  find_unread();
  go_on();
}

// An earlier life of this node may have taken entries from the fleet, also into lists that a later revision brings
// back.
void FleetEntries::find_unread() {
  for (const ListDetails& list : daemon_.running()->lists) {
    if (list.dynamic && known_.insert(list.name).second) unread_.push_back(list.name);
  }
}

// Pages of an earlier reading are dropped. A change that runs ends before the first page is read.
void FleetEntries::went_back() {
  readings_++;
  for (auto& [name, list] : lists_) list.begin_list();
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
    list_of(list).has(one.text, one.expires, true);
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

FollowedList& FleetEntries::list_of(const std::string& name) {
  const auto [found, is_new] = lists_.try_emplace(name);
  if (is_new) found->second.look(static_cast<uint64_t>(unix_now()), kLimits);
  return found->second;
}

void FleetEntries::claim(const std::string& list, const std::string& text, const Wanted& wanted) {
  list_of(list).claim(text, {{text_in(list, text)}, wanted.expires, wanted.comment});
}

void FleetEntries::take(const fleet::News& news) {
  look_at_clock();  // what comes now is reckoned from the clock as it is, and may not be moved by a jump before it
  if (news.is_whole && !std::exchange(is_whole_, true)) whole_.clear();
  for (const fleet::EntryNews& one : news.entries) {
    const uint64_t ttl_s = std::min<uint64_t>(one.ttl_s, UINT32_MAX);
    const Wanted wanted = {ttl_s == 0 ? kNever : static_cast<uint64_t>(unix_now()) + ttl_s, one.comment};
    if (news.is_whole) {
      Entries& entries = whole_[one.list];
      if (one.is_gone) {
        entries.erase(one.entry);
      } else if (entries.size() < kMostOfList || entries.contains(one.entry)) {
        entries[one.entry] = wanted;
      }
      continue;
    }
    FollowedList& list = list_of(one.list);
    if (one.is_gone) {
      list.release(one.entry);
    } else if (list.size() < kMostOfList || list.contains(one.entry)) {
      claim(one.list, one.entry, wanted);
    }
  }
  if (!news.is_last) return;
  heard_at_ = std::max(heard_at_, news.at);
  if (!news.is_whole) return go_on();
  // The store may have been restored from a backup: its revisions may be earlier ones.
  heard_at_ = news.at;
  counts_.at = std::min(counts_.at, heard_at_);
  for (auto& [name, list] : lists_) {
    const Entries& there = whole_[name];
    for (const auto& [text, one] : list.claims()) {
      if (!there.contains(text)) list.release(text);
    }
    list.retry();
  }
  for (const auto& [list, entries] : whole_) {
    for (const auto& [text, wanted] : entries) claim(list, text, wanted);
  }
  whole_.clear();
  is_whole_ = false;
  look_at_all();
}

void FleetEntries::lists_changed() {
  // Their entries may be called otherwise.
  for (auto& [name, list] : lists_) {
    list.retry();
    for (const auto& [text, one] : list.claims()) claim(name, text, {one.expires, one.comment});
  }
  find_unread();
  look_at_all();
}

// etcd tells how long an entry stays, and its end is an event of etcd. The time of the day at which that is expected
// moves along with the clock, so that none ends because the clock jumped.
void FleetEntries::look_at_clock() {
  const int64_t clock = unix_now() - boot_now(), jump = clock - clock_;
  if (std::abs(jump) <= kJump_s) return;
  clock_ = clock;
  log::warning("fleet: the clock of this node has jumped", {{"seconds", jump}});
  const auto moved = [jump](uint64_t expires) {
    return expires == kNever ? expires : static_cast<uint64_t>(static_cast<int64_t>(expires) + jump);
  };
  for (auto& [name, list] : lists_) {
    for (const auto& [text, one] : list.claims()) claim(name, text, {moved(one.expires), one.comment});
  }
  for (auto& [list, entries] : whole_) {
    for (auto& [text, wanted] : entries) wanted.expires = moved(wanted.expires);
  }
  look_at_all();
}

void FleetEntries::look_at_all() {
  for (auto& [name, list] : lists_) list.look(static_cast<uint64_t>(unix_now()), kLimits);
  go_on();
}

void FleetEntries::go_on() {
  if (is_reading_ || is_changing_) return;
  if (!unread_.empty()) return read_page();
  if (heard_at_ == 0) return;
  const auto running = daemon_.running();
  for (auto& [name, list] : lists_) {
    // Entries of a list that the node does not have wait for a revision that brings it.
    if (find_list(*running, name) == nullptr) continue;
    if (const auto batch = list.next(static_cast<uint64_t>(unix_now()))) return change(name, *batch);
  }
  count();
}

void FleetEntries::change(const std::string& list, const FollowedList::Batch& batch) {
  Change change;
  change.list = list;
  change.uid = kFleetUser;
  change.verb = batch.is_add ? Change::Verb::add : Change::Verb::del;
  const List* there = find_list(*daemon_.running(), list);
  const uint64_t max_ttl_s = there == nullptr ? 0 : there->dynamic->max_ttl_s;
  add_rows(batch, static_cast<uint64_t>(unix_now()), max_ttl_s, change);
  is_changing_ = true;
  daemon_.change(std::move(change), [this, list, batch, alive = mailbox_.token()](const ChangeAnswer& report) {
    // Later: a daemon that cannot change anything answers at once, and each answer would ask for the next change.
    if (*alive) mailbox_.post([this, list, batch, report] { take_report(list, batch, report); });
  });
}

void FleetEntries::take_report(const std::string& list, const FollowedList::Batch& batch, const ChangeAnswer& report) {
  is_changing_ = false;
  FollowedList& followed = list_of(list);
  if (report.generation.number != 0) {
    followed.done(batch);
    return go_on();
  }
  (void)followed.refused(batch, report.error);
  if (followed.take_refusals().empty()) return go_on();  // smaller batches follow, or nobody wants it any more
  if (n_told_++ < kMostTold) {
    log::warning("fleet: an entry is not taken",
                 {{"list", list}, {"entry", batch.rows.front().entry}, {"error", report.error}});
  }
  if (!again_) {
    again_ = loop_.timer(Clock::now() + kRefusedRest, [this] {
      again_.reset();
      n_told_ = 0;
      for (auto& [name, one] : lists_) one.retry();
      look_at_all();
    });
  }
  go_on();
}

void FleetEntries::count() {
  Counts now;
  now.at = heard_at_;
  const auto running = daemon_.running();
  for (const auto& [name, list] : lists_) {
    now.held += list.ours();
    now.refused += find_list(*running, name) == nullptr ? list.size() : list.refused();
  }
  const bool is_news = now.held != counts_.held || now.refused != counts_.refused || now.at != counts_.at;
  counts_ = now;
  if (is_news) changed_();
}

}  // namespace weir::control
