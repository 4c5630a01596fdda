#include <fmt/format.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/maker.h"

// The maker makes changes of entries: journal, overlay, number.
namespace weir::control {

namespace {

// One publication in so many removes the oldest ones from the history.
constexpr uint64_t kForgetEach = 500;

void append(ListDraft& to, const ListDraft& more) {
  to.v4.insert(to.v4.end(), more.v4.begin(), more.v4.end());
  to.v6.insert(to.v6.end(), more.v6.begin(), more.v6.end());
  to.flows.insert(to.flows.end(), more.flows.begin(), more.flows.end());
}

// add, del: each once.
std::string cause_of(const std::vector<Change::Verb>& verbs) {
  constexpr const char* kNames[] = {"add", "del", "flush"};
  std::string text;
  for (size_t v = 0; v < std::size(kNames); v++) {
    const bool is_there = std::find(verbs.begin(), verbs.end(), static_cast<Change::Verb>(v)) != verbs.end();
    if (is_there) text += std::string(text.empty() ? "" : ", ") + kNames[v];
  }
  return text;
}

// Removes publications that are too old or too many.
Result<void> forget_old(Generations& generations, wire::Generation newest, uint32_t keep_s) {
  if (newest.number % kForgetEach == 0) {
    const Result<uint64_t> oldest = generations.oldest_since(newest.epoch, unix_now() - int64_t{keep_s});
    if (!oldest) return Error{oldest.error()};
    if (Result<void> done = generations.forget_before({newest.epoch, *oldest}); !done) return done;
  }
  const Result<bool> crowded = generations.forget_crowded(newest.epoch);
  if (!crowded) return Error{crowded.error()};
  if (*crowded) {
    log::warning("the oldest publications are forgotten: those that are kept changed too many added entries",
                 {{"most", Generations::kMostBefore}});
  }
  return {};
}

}  // namespace

// A batch that fails leaves journal and lists as they were.
void Maker::make(ChangeBatch& batch, const Running& old) {
  const Result<Journal*> journal = this->journal();
  Result<void> made;
  if (!journal) {
    made = Error{journal.error()};
  } else {
    const Result<void> had_memory = with_memory([&] { made = make_changes(batch, old, **journal); });
    if (!had_memory) made = had_memory;
    if (!made) (*journal)->roll_back();
  }
  if (made) return;
  batch.next = nullptr;
  for (ChangeBatch::Job& job : batch.jobs) {
    if (job.answer.error.empty()) job.answer.error = made.error();
  }
}

Result<void> Maker::make_changes(ChangeBatch& batch, const Running& old, Journal& journal) {
  if (!journal.is_in_lists()) {
    return Error{
        "the journal could not be read when the lists were made: they may be without what was added\nhint: "
        "`controlctl reload` reads it"};
  }
  const auto now = unix_now();
  Running on_base = old;
  if (batch.base != nullptr) on_base.stands_on = batch.base;
  auto policy = std::make_shared<Policy>(*old.policy);
  std::vector<EntriesEdit> edits(policy->lists.size());
  if (Result<void> begun = journal.begin(numbers_.next()); !begun) return begun;
  if (Result<void> swept = sweep(policy->lists, now, journal, edits); !swept) return swept;
  size_t n_good = 0;
  std::vector<Change::Verb> verbs;  // of those that are good
  for (ChangeBatch::Job& job : batch.jobs) {
    const Result<const List*> list = list_of(job.change, policy->lists);
    EntriesEdit edit;
    Result<void> done = list ? journal.all_or_nothing([&]() -> Result<void> {
      const Result<ChangeCounts> counts = apply(job.change, **list, now, journal, edit);
      if (!counts) return Error{counts.error()};
      job.answer.counts = *counts;
      look_elsewhere(job.change, **list, policy->lists, now, job.answer.counts);
      return {};
    })
                             : Result<void>(Error{list.error()});
    if (!done) {
      job.answer.error = done.error();
      continue;
    }
    n_good++;
    verbs.push_back(job.change.verb);
    job.answer.list = (*list)->name;
    EntriesEdit& whole = edits[static_cast<size_t>(*list - policy->lists.data())];
    append(whole.added, edit.added);
    append(whole.removed, edit.removed);
  }
  std::vector<ListChange> changes;
  for (size_t l = 0; l < edits.size(); l++) {
    List& list = policy->lists[l];
    const std::shared_ptr<const Entries> before = list.as_written();
    const uint64_t added = edits[l].added.entries(), removed = edits[l].removed.entries();
    const std::shared_ptr<const Entries> after = edited(before, std::move(edits[l]));
    if (after == before) continue;
    list.hold(after);
    changes.push_back({list.name, "changed", list.entries(), added, removed});
  }
  if (!changes.empty() || batch.base != nullptr) {
    const std::shared_ptr<Running> next = running_of(policy);
    if (Result<void> published = make_publication(*next, &on_base, Make::overlay); !published) {
      batch.has_to_be_retried = n_good > 1;
      return published;
    }
    next->base = old.base;
    next->policy_path = old.policy_path;
    batch.cause = batch.jobs.empty() ? "a new base for the overlay" : cause_of(verbs);
    batch.changes = changes;
    Result<void> recorded =
        journal.generations().add(next->publication->generation.epoch,
                                  {next->publication->generation.number, unix_now(), batch.cause,
                                   batch.jobs.empty() ? kNobody : batch.jobs.front().change.uid, next->base, changes});
    if (recorded) {
      recorded = forget_old(journal.generations(), next->publication->generation, policy->history.keep_s);
    }
    if (!recorded) return recorded;
    batch.next = next;
  }
  for (ChangeBatch::Job& job : batch.jobs) {
    if (!job.answer.error.empty()) continue;
    const Result<uint64_t> entries = journal.count(job.answer.list);
    if (!entries) return Error{entries.error()};
    job.answer.entries = *entries;
  }
  if (Result<void> committed = journal.commit(); !committed) return committed;
  if (batch.next == nullptr) return {};
  numbers_.give_out();  // the journal has it
  // From here on it is in the journal: what the disk does not take now it takes later. Of an overlay the last good is
  // kept beside the acknowledgement: nobody who has it takes an older one.
  if (batch.next->publication->base != nullptr && batch.base == nullptr) return {};
  batch.saved = keep(*batch.next, targets_of(*policy));
  return {};
}

}  // namespace weir::control
