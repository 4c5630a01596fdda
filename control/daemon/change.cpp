#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"

// The loop publishes changes by `add`, `del` and `flush`, and answers when the targets acknowledge.
namespace weir::control {

namespace {

// For a target that went away just now: it may be starting anew.
constexpr std::chrono::milliseconds kAwayWait{1000};
// A book is as large as the policy: it is not written for each change. The journal has what it does not have yet.
constexpr std::chrono::seconds kBookWait{60};
// If every target has its own copy on disk, controld writes its copy later: targets are not delayed, and changes that
// come close together are written once.
constexpr std::chrono::milliseconds kSaveWait{100};
// Every publication compiles and proves all keys of its overlay again, about 2 us each; a new base costs about 0.5 us a
// key of its own, beside all else. With k changed keys a publication the sum is least with a new base after sqrt(B /
// 2k) of them: 5 when a hundredth of a million entries is another one each time, at 100,000 keys. A publication is to
// come within 200 ms all the same, so a new base is built when this many keys have changed, and one in so many of the
// base's.
constexpr uint64_t kCompactAboveKeys = 32768, kCompactAboveShare = 32;

}  // namespace

void Daemon::begin_changes(const std::shared_ptr<ChangeBatch>& batch) {
  maker_thread_.submit([this, batch, old = running_] {
    maker_.make(*batch, *old);
    mailbox_.post([this, batch] { publish_changes(batch); });
  });
}

// The lists and counts that changed, and the first user of those who share the publication.
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
    if (!job.answer.error.empty()) continue;
    if (requests++ == 0) {
      fields.emplace_back("user", job.change.uid);
      fields.emplace_back("process", job.change.pid);
      fields.emplace_back("took", log::milliseconds(ms_between(job.begin, batch.published)));
    }
    sum.added += job.answer.counts.added;
    sum.renewed += job.answer.counts.renewed;
    sum.deleted += job.answer.counts.deleted;
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
        maker_thread_.submit([this, running = running_] { (void)maker_.keep_book(*running); });
      });
    }
  }
  const bool any_made = std::any_of(batch->jobs.begin(), batch->jobs.end(),
                                    [](const ChangeBatch::Job& job) { return job.answer.error.empty(); });
  if (any_made) {
    answer_when_acknowledged(batch, running_->publication->generation);
  } else {
    answer_changes(*batch, {});
  }
  intents_.begin_next();
}

// The journal has the added entries. The book is written again with a new base, and each minute. saved: the result of
// an earlier write.
void Daemon::keep_change(bool is_new_base, const Result<void>& saved) {
  saves_++;
  maker_thread_.submit([this, is_new_base, saved, next = running_] {
    const wire::Generation generation = next->publication->generation;
    const Result<void> kept = maker_.keep_change(*next, is_new_base);
    mailbox_.post([this, kept, generation, saved] {
      saves_--;
      const Result<void>& result = saved ? kept : saved;
      if (is_stopping() || running_->publication->generation != generation) return;  // the newer one says how it is
      disk_error_ = result ? "" : result.error();
      if (!result) keep_again();
    });
  });
}

// The answer waits for connected targets, and a second for one that left just now: it may be restarting. Other targets
// get the change when they return.
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

// Why the list drops no packet now; empty: it may, or it is no drop list.
std::string Daemon::why_list_drops_nothing(const std::string& name) const {
  const std::vector<List>& lists = running_->policy->lists;
  const auto list = std::find_if(lists.begin(), lists.end(), [&](const List& each) { return each.name == name; });
  if (list == lists.end() || list->action != WEIR_DROP) return "";
  if (targets_.empty()) return "no target enforces the policy: it names none below `targets:`";
  if (bypass_on()) return "bypass is on: everything passes until `controlctl bypass off`";
  if (list->mode == WEIR_MONITOR)
    return fmt::format("list {} has `mode: monitor`: it counts packets, and drops none", name);
  return "";
}

// generation: in which they are; none: none of them could be made.
void Daemon::answer_changes(ChangeBatch& batch, wire::Generation generation) {
  Clock::time_point last = batch.published;
  const std::vector<TargetOutcome> targets = outcomes(generation, last);
  const auto missing =
      std::count_if(targets.begin(), targets.end(), [](const TargetOutcome& target) { return !target.acknowledged; });
  for (size_t j = 0; j < batch.jobs.size(); j++) {
    const ChangeBatch::Job& job = batch.jobs[j];
    ChangeAnswer answer = job.answer;
    answer.total_ms = ms_since(job.begin);
    if (answer.error.empty()) {
      answer.generation = generation;
      answer.targets = targets;
      if (!batch.saved) answer.error = "enforced, not durable: " + batch.saved.error();
      if (missing != 0 && answer.error.empty()) {
        answer.error = fmt::format("{} of {} targets did not acknowledge", missing, targets.size());
      }
      answer.ok = answer.error.empty();
      if (job.change.verb == Change::Verb::add) answer.notice = why_list_drops_nothing(answer.list);
    }
    tally_.add_change(answer.ok);
    if (answer.error.empty() && job.change.verb == Change::Verb::add && options_.added) {
      options_.added(job.change, answer.list);
    }
    batch.changed[j](answer);
  }
}

void Daemon::read_added(const std::string& list, const std::string& after, size_t most, Added done) {
  const Callers::Id caller = callers_.add([done] { done(Error{"controld stops"}); });
  historian_.submit([this, list, after, most, caller, done = std::move(done)] {
    const Result<Journal*> journal = maker_.journal_to_ask();
    auto page = std::make_shared<Result<std::vector<JournalEntry>>>(
        journal ? (*journal)->page(list, after, most) : Result<std::vector<JournalEntry>>(Error{journal.error()}));
    mailbox_.post([this, page, caller, done] {
      if (callers_.take(caller)) done(*page);
    });
  });
}

// After a publication: is its overlay large enough for a new base? It is built from what runs now.
void Daemon::compact_when_due() {
  const OverlayReport& overlay = running_->overlay;
  if (running_->publication->base == nullptr) return;
  if (overlay.keys < std::max(kCompactAboveKeys, overlay.of_base / kCompactAboveShare)) return;
  if (!intents_.begin_base()) return;
  maker_thread_.submit([this, policy = running_->policy] {
    const wire::Generation number = maker_.give_number("a new base");
    mailbox_.post([this, policy, number] {
      if (is_stopping()) return;
      builder_.submit([this, policy, number] {
        std::shared_ptr<const Base> base;
        Result<void> made;
        const Result<void> had_memory = with_memory([&] {
          Result<Compiled> compiled = compile(*policy, number, options_.build_threads);
          if (compiled) {
            base = whole_of(*compiled, policy);
            (void)base->snapshot->view();  // which walks all of it: here, so that nobody waits for it later
          } else {
            made = Error{compiled.error()};
          }
        });
        malloc_trim(0);
        const std::string error = !had_memory ? had_memory.error() : made ? "" : made.error();
        mailbox_.post([this, base, error] {
          if (base == nullptr) log::error("no new base for the overlay", {{"error", error}});
          intents_.take_base(base);
        });
      });
    });
  });
}

}  // namespace weir::control
