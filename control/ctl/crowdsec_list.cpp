#include "control/ctl/crowdsec_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "common/clock.h"
#include "control/ctl/client.h"
#include "control/ctl/text.h"
#include "control/policy/model/time_text.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"

namespace weir::control::ctl {
namespace {

// Of one change, which controld publishes as a whole: of 100,000 entries on a slow machine that takes 20 s.
constexpr size_t kMostBatch = 50'000;
constexpr size_t kMostBatchBytes = 8 << 20;  // of its texts; a request may have twice as many
constexpr int kPatienceMs = 120'000;         // for one answer

// Which elements of a vector are one change.
struct Batch {
  std::ptrdiff_t begin = 0, end = 0;

  // Those behind the batch before. False: there are none.
  template <class T, class BytesOf>
  bool next(const std::vector<T>& all, BytesOf bytes_of) {
    begin = end;
    const std::ptrdiff_t last = std::min(std::ssize(all), begin + static_cast<std::ptrdiff_t>(kMostBatch));
    for (size_t bytes = 0; end < last && bytes < kMostBatchBytes; end++)
      bytes += bytes_of(all[static_cast<size_t>(end)]);
    return begin != end;
  }
};

}  // namespace

Result<Document> CrowdsecList::call(const Request& request) const {
  Patience patience;
  patience.is_quiet = true;
  patience.most_ms = kPatienceMs;
  Result<Document> answer = call_controld(socket_, request, patience);
  if (!answer) return Error{one_line(answer.error())};
  // One with "ok" has more to tell than its error.
  const std::optional<std::string> error = answer->text("error");
  if (error && !answer->contains("ok")) return Error{one_line(*error)};
  return answer;
}

Result<crowdsec::Limits> CrowdsecList::find_list() {
  Request wanted{"list"};
  if (!list_.empty()) wanted.name = list_;
  const Result<Document> document = call(wanted);
  if (!document) return Error{document.error()};
  const Result<ListAnswer> answer = read_json<ListAnswer>(*document);
  if (!answer) return Error{"the answer of controld is not understood: " + answer.error()};
  const ListDetails* found = nullptr;
  std::string names;
  size_t n = 0;
  for (const ListDetails& list : answer->lists) {
    if (!list.dynamic) continue;
    found = &list;
    n++;
    names += (names.empty() ? "" : ", ") + list.name;
  }
  if (n == 0 && list_.empty()) return Error{"no list of the policy has `dynamic: true`: write one, and reload"};
  if (n == 0) return Error{fmt::format("list {} is not dynamic: write `dynamic: true` in it, and reload", list_)};
  if (n > 1) return Error{"there are several dynamic lists: name one with --list: " + names};
  list_ = found->name;
  return crowdsec::Limits{found->dynamic->max_entries, found->dynamic->max_ttl};
}

Result<void> CrowdsecList::read_list(crowdsec::Ledger& ledger) {
  ledger.begin_list();
  Request wanted{"entries"};
  wanted.name = list_;
  do {
    const Result<Document> document = call(wanted);
    if (!document) return Error{document.error()};
    const Result<EntriesAnswer> page = read_json<EntriesAnswer>(*document);
    if (!page) return Error{"the answer of controld is not understood: " + page.error()};
    for (const EntryDetails& entry : page->entries) {
      if (entry.added) ledger.has(entry.entry, entry.expires.value_or(kNever), entry.added->comment);
    }
    wanted.after = page->next.empty() ? std::nullopt : std::optional<std::string>(page->next);
  } while (wanted.after);
  is_known_ = true;
  return {};
}

Result<void> CrowdsecList::change(const Request& request, ListRound& round) const {
  const Result<Document> document = call(request);
  if (!document) return Error{document.error()};
  const Result<ChangeAnswer> answer = read_json<ChangeAnswer>(*document);
  if (!answer) return Error{"the answer of controld is not understood: " + answer.error()};
  round.added += answer->counts.added;
  round.renewed += answer->counts.renewed;
  round.deleted += answer->counts.deleted;
  if (!answer->ok) round.has_all_acknowledged = false;
  return {};
}

Result<void> CrowdsecList::follow(crowdsec::Ledger& ledger, ListRound& round) {
  const Result<crowdsec::Limits> limits = find_list();
  if (!limits) return Error{limits.error()};
  if (!is_known_) {
    if (Result<void> read = read_list(ledger); !read) return read;
  }
  const uint64_t now = unix_now();
  const crowdsec::Changes changes = ledger.changes(now, *limits);
  round.no_room = changes.no_room;
  Request del{"del"};
  for (Batch batch; batch.next(changes.del, [](const std::string& entry) { return entry.size(); });) {
    del.name = list_;
    del.entries.assign(changes.del.begin() + batch.begin, changes.del.begin() + batch.end);
    if (Result<void> done = change(del, round); !done) return is_known_ = false, done;
    for (const std::string& entry : del.entries) ledger.deleted(entry);
  }
  for (Batch batch;
       batch.next(changes.add, [](const crowdsec::Addition& one) { return one.entry.size() + one.comment.size(); });) {
    Request add{"add"};
    add.name = list_;
    const uint64_t at = unix_now();
    for (std::ptrdiff_t i = batch.begin; i < batch.end; i++) {
      const crowdsec::Addition& addition = changes.add[static_cast<size_t>(i)];
      add.entries.push_back(addition.entry);
      add.ttls.push_back(addition.expires > at ? addition.expires - at : 1);
      add.comments.push_back(addition.comment);
    }
    if (Result<void> done = change(add, round); !done) return is_known_ = false, done;
    for (std::ptrdiff_t i = batch.begin; i < batch.end; i++) ledger.added(changes.add[static_cast<size_t>(i)]);
  }
  return {};
}

}  // namespace weir::control::ctl
