#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"

// What `add`, `del` and `flush` change, from the journal to the last target's acknowledgement.
namespace weir::control {

namespace {

// For a target that went away just now: it may be starting anew.
constexpr std::chrono::milliseconds kAwayWait{1000};
// A book is as large as the policy: it is not written for each change. The journal has what it does not have yet.
constexpr std::chrono::seconds kBookWait{60};
// Where every target has its own copy on disk, ours waits, so that it does not delay theirs, and changes that come
// close together are written once.
constexpr std::chrono::milliseconds kSaveWait{100};
// Of so many publications one takes the oldest ones out of the history.
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

// Of the history, what is too old or too much.
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

void Daemon::begin_changes(const std::shared_ptr<ChangeBatch>& batch) {
  worker_.submit([this, batch, old = running_] {
    make_changes(*batch, *old);
    mailbox_.post([this, batch] { publish_changes(batch); });
  });
}

// On the worker. What cannot be done leaves journal and lists as they were.
void Daemon::make_changes(ChangeBatch& batch, const Running& old) {
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
    if (job.report.error.empty()) job.report.error = made.error();
  }
}

Result<void> Daemon::make_changes(ChangeBatch& batch, const Running& old, Journal& journal) {
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
      job.report.counts = *counts;
      return {};
    })
                             : Result<void>(Error{list.error()});
    if (!done) {
      job.report.error = done.error();
      continue;
    }
    n_good++;
    verbs.push_back(job.change.verb);
    job.report.list = (*list)->name;
    EntriesEdit& whole = edits[static_cast<size_t>(*list - policy->lists.data())];
    append(whole.added, edit.added);
    append(whole.removed, edit.removed);
  }
  std::vector<ListChange> changes;
  for (size_t l = 0; l < edits.size(); l++) {
    List& list = policy->lists[l];
    const std::shared_ptr<const Entries> before = list.content;
    const uint64_t added = edits[l].added.entries(), removed = edits[l].removed.entries();
    list.content = edited(before, std::move(edits[l]));
    if (list.content != before) changes.push_back({list.name, "changed", list.entries(), added, removed});
  }
  if (!changes.empty() || batch.base != nullptr) {
    const std::shared_ptr<Running> next = running_of(policy);
    if (Result<void> published = make_publication(*next, &on_base, Make::overlay, nullptr); !published) {
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
    if (!job.report.error.empty()) continue;
    const Result<uint64_t> entries = journal.count(job.report.list);
    if (!entries) return Error{entries.error()};
    job.report.entries = *entries;
  }
  if (Result<void> committed = journal.commit(); !committed) return committed;
  if (batch.next == nullptr) return {};
  numbers_.give_out();  // the journal has it
  // From here on it is in the journal: what the disk does not take now it takes later. Of an overlay the last good is
  // kept beside the acknowledgement: nobody who has it takes an older one.
  if (batch.next->publication->base != nullptr && batch.base == nullptr) return {};
  std::vector<TargetSpec> targets = options_.targets.empty() ? policy->targets : options_.targets;
  batch.saved = keep(*batch.next, targets);
  return {};
}

// What was changed, and by whom: by the first of those who share the publication.
log::Fields Daemon::told_of(const ChangeBatch& batch) {
  constexpr size_t kMostNamed = 3;
  log::Fields fields;
  std::string names;
  for (size_t l = 0; l < std::min(batch.changes.size(), kMostNamed); l++) {
    names += (names.empty() ? "" : ",") + batch.changes[l].name;
  }
  if (!names.empty()) fields.emplace_back("changed", names);
  ChangeCounts sum;
  size_t requests = 0;
  for (const ChangeBatch::Job& job : batch.jobs) {
    if (!job.report.error.empty()) continue;
    if (requests++ == 0) {
      fields.emplace_back("user", job.change.uid);
      fields.emplace_back("process", job.change.pid);
      fields.emplace_back(
          "took", log::milliseconds(std::chrono::duration<double, std::milli>(batch.published - job.begin).count()));
    }
    sum.added += job.report.counts.added;
    sum.renewed += job.report.counts.renewed;
    sum.deleted += job.report.counts.deleted;
  }
  if (requests > 1) fields.emplace_back("requests", requests);
  for (const auto& [name, n] : {std::pair("added", sum.added), {"renewed", sum.renewed}, {"deleted", sum.deleted}}) {
    if (n != 0) fields.emplace_back(name, n);
  }
  return fields;
}

// On the loop.
void Daemon::publish_changes(const std::shared_ptr<ChangeBatch>& batch) {
  if (is_stopping() || !intents_.end_changes(batch)) return;
  batch->published = Clock::now();
  if (batch->next != nullptr) {
    batch->next->published_at = unix_now();
    publish(batch->next);
    tell_published(batch->cause, told_of(*batch));
    compact_when_due();
    capture_.published(running_->publication->generation);
    const bool is_new_base = running_->publication->base == nullptr || batch->base != nullptr;
    const bool have_disks = std::all_of(targets_.begin(), targets_.end(), [](const auto& target) {
      return traits_of(target->spec().kind).keeps_snapshots;
    });
    if (is_new_base || !have_disks) {
      keep_change(is_new_base, batch->saved);
    } else if (!save_due_) {
      save_due_ = loop_.timer(Clock::now() + kSaveWait, [this] {
        save_due_.reset();
        keep_change(false, {});
      });
    }
    if (!book_due_) {
      book_due_ = loop_.timer(Clock::now() + kBookWait, [this] {
        book_due_.reset();
        worker_.submit([this, running = running_] { (void)keep_book(*running); });
      });
    }
  }
  const bool any_made = std::any_of(batch->jobs.begin(), batch->jobs.end(),
                                    [](const ChangeBatch::Job& job) { return job.report.error.empty(); });
  if (any_made) {
    answer_when_acknowledged(batch, running_->publication->generation);
  } else {
    answer_changes(*batch, {});
  }
  intents_.begin_next();
}

// What was added is in the journal; the book is written anew with a new base, and now and then. saved: of what is kept
// already.
void Daemon::keep_change(bool is_new_base, const Result<void>& saved) {
  saves_++;
  worker_.submit([this, is_new_base, saved, next = running_] {
    const wire::Generation generation = next->publication->generation;
    Result<void> kept;
    // A reload that came first has kept something newer.
    if (!is_behind(generation, kept_)) {
      if (is_new_base) {
        kept = keep_book(*next);
      } else if (kept_ != generation) {
        kept = store_.save(*next->publication);
      }
      if (kept) kept_ = generation;
    }
    mailbox_.post([this, kept, generation, saved] {
      saves_--;
      const Result<void>& result = saved ? kept : saved;
      if (is_stopping() || running_->publication->generation != generation) return;  // the newer one says how it is
      disk_error_ = result ? "" : result.error();
      if (!result) keep_again();
    });
  });
}

// Those who are there are waited for; one that is away gets it when it returns, and is waited for only if it may be
// starting anew.
void Daemon::answer_when_acknowledged(const std::shared_ptr<ChangeBatch>& batch, wire::Generation generation) {
  const auto finish = [this, batch, generation] { answer_changes(*batch, generation); };
  const auto is_settled = [this, generation] {
    return std::all_of(targets_.begin(), targets_.end(), [&](const auto& target) {
      const std::optional<Clock::time_point> away_since = target->away_since();
      const bool is_long_away = away_since && *away_since + kAwayWait <= Clock::now();
      return target->is_settled(generation) || is_long_away;
    });
  };
  const auto is_settled_or_away = [this, generation] {
    return std::all_of(targets_.begin(), targets_.end(), [&](const auto& target) {
      return target->is_settled(generation) || !target->state().connected;
    });
  };
  waits_.add(is_settled, batch->published + kAwayWait, [this, batch, is_settled_or_away, finish] {
    if (is_stopping() || is_settled_or_away()) return finish();
    waits_.add(is_settled_or_away, batch->published + std::chrono::milliseconds(options_.acknowledge_ms), finish);
  });
}

// generation: in which they are; none: none of them could be made.
void Daemon::answer_changes(ChangeBatch& batch, wire::Generation generation) {
  Clock::time_point last = batch.published;
  const std::vector<TargetOutcome> targets = outcomes(generation, last);
  const auto missing =
      std::count_if(targets.begin(), targets.end(), [](const TargetOutcome& target) { return !target.acknowledged; });
  for (size_t j = 0; j < batch.jobs.size(); j++) {
    const ChangeBatch::Job& job = batch.jobs[j];
    ChangeReport report = job.report;
    report.total_ms = std::chrono::duration<double, std::milli>(Clock::now() - job.begin).count();
    if (report.error.empty()) {
      report.generation = generation;
      report.targets = targets;
      if (!batch.saved) report.error = "enforced, not durable: " + batch.saved.error();
      if (missing != 0 && report.error.empty()) {
        report.error = fmt::format("{} of {} targets did not acknowledge", missing, targets.size());
      }
      report.ok = report.error.empty();
    }
    tally_.add_change(report.ok);
    if (report.error.empty() && job.change.verb == Change::Verb::add && options_.added) {
      options_.added(job.change, report.list);
    }
    batch.changed[j](report);
  }
}

void Daemon::read_added(const std::string& list, const std::string& after, size_t most, Added done) {
  const Callers::Id caller = callers_.add([done] { done(Error{"controld stops"}); });
  historian_.submit([this, list, after, most, caller, done = std::move(done)] {
    const Result<Journal*> journal = journal_to_ask();
    auto page = std::make_shared<Result<std::vector<JournalEntry>>>(
        journal ? (*journal)->page(list, after, most) : Result<std::vector<JournalEntry>>(Error{journal.error()}));
    mailbox_.post([this, page, caller, done] {
      if (callers_.take(caller)) done(*page);
    });
  });
}

Result<Journal> Daemon::open_journal(const std::string& state_dir, GenerationFile& numbers) {
  Result<Journal> opened = Journal::open(state_dir);
  if (!opened) return opened;
  if (!opened->notice().empty()) log::error("the journal was damaged", {{"text", opened->notice()}});
  const auto newest = opened->generations().newest(numbers.last().epoch, 1);
  if (newest && !newest->empty()) numbers.pass({numbers.last().epoch, newest->front().number});
  return opened;
}

// On the worker, which alone uses it.
Result<Journal*> Daemon::journal() {
  if (journal_) return &*journal_;
  Result<Journal> opened = open_journal(store_.state_dir(), numbers_);
  if (!opened) return Error{opened.error()};
  journal_ = std::move(*opened);
  open_journal_ = &*journal_;
  return &*journal_;
}

// Once it is open it stays so.
Result<Journal*> Daemon::journal_to_ask() const {
  if (Journal* const journal = open_journal_) return journal;
  return Error{"the journal is not open: `controlctl reload` tries to open it, and tells why it cannot"};
}

// On the worker: puts what the journal holds into the lists. before: of what runs or ran; null: nothing did. A journal
// that cannot be read takes nothing from anybody.
void Daemon::add_journal(Book& book, const Book* before) {
  const auto now = unix_now();
  const Result<Journal*> journal = this->journal();
  if (!journal) log::error("no journal: what was added to lists stays as it was", {{"error", journal.error()}});
  if (journal && before != nullptr && (*journal)->take_reset()) {
    Result<void> restored = (*journal)->begin({});
    if (restored) restored = restore(*before, now, **journal);
    if (restored) restored = (*journal)->commit();
    if (!restored) (*journal)->roll_back();
    restored ? log::error("the journal begins with what the last good had of it; who and why is lost")
             : log::error("the journal begins empty", {{"error", restored.error()}});
  }
  for (List& list : book) {
    ListDraft added;
    if (list.dynamic) {
      Result<ListDraft> kept = journal ? journal_of(list, now, **journal) : Result<ListDraft>(Error{journal.error()});
      if (!kept && before != nullptr) {
        const auto was =
            std::find_if(before->begin(), before->end(), [&](const List& l) { return l.name == list.name; });
        if (was != before->end()) kept = journal_part(*was->content);
      }
      if (kept) added = std::move(*kept);
    }
    list.content = with_journal(list.content, std::move(added));
  }
  if (journal) (*journal)->set_in_lists();
}

}  // namespace weir::control
