#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <charconv>

#include "common/clock.h"
#include "common/files.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/maker.h"

// The maker makes a publication of a reload: journal, compilation, limits, number, last good, and the history
// afterwards.
namespace weir::control {

namespace {

// More than this is no policy.
constexpr size_t kMaxPolicyBytes = size_t{64} << 20;
// Notes of the journal: the base that a rollback published, and the base to go back to unless somebody confirms.
constexpr const char* kHeld = "held";
constexpr const char* kUnconfirmed = "unconfirmed";

// Nothing is compiled again: takes the publication over.
void keep_published(const Running& old, Running& next) {
  next.publication = old.publication;
  next.snapshot = old.snapshot;
  next.stands_on = old.stands_on;
  next.overlay = old.overlay;
  next.report = old.report;
  next.memory_limit = old.memory_limit;
  next.published_at = old.published_at;
  next.base = old.base;
}

// The disk, say: the same reload may succeed later.
void fail_for_now(ReloadAnswer& answer, std::string error) {
  answer.error = std::move(error);
  answer.may_pass = true;
}

uint64_t number_of(const Result<std::string>& text) {
  uint64_t number = 0;
  if (text) std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

std::vector<HistoryFiles::Feed> feeds_to_keep(const Book& book) {
  std::vector<HistoryFiles::Feed> feeds;
  for (const List& list : book) {
    for (const FeedFile& file : list.feeds()) {
      if (file.state.digest != Digest{}) feeds.push_back({file.feed.path, file.state.digest});
    }
  }
  return feeds;
}

// A list whose feed does not come through keeps what it had, and says why.
void hold_back(const List& was, const std::string& why, int64_t now, List& list) {
  FeedRefusal refusal;
  refusal.path = list.feed.path;
  refusal.reason = why;
  refusal.hint = "`controlctl plan` tells more; `controlctl feeds --accept " + list.name + "` takes it as it is";
  refusal.since = was.refusal && was.refusal->reason == why ? was.refusal->since : now;
  list = was;
  list.refusal = refusal;
  for (FeedFile& file : list.files) {
    refusal.path = file.feed.path;  // each is watched by itself
    file.refusal = refusal;
  }
}

// Feeds of the same policy differ in their content alone.
bool has_same_settings(const List& was, const List& list) {
  return was.action == list.action && was.mode == list.mode && was.match == list.match && was.file == list.file &&
         was.url == list.url && was.ipv6_aggregate == list.ipv6_aggregate && was.dynamic == list.dynamic;
}

}  // namespace

void Maker::make(ReloadJob& job, const Running* old, const Book* before) {
  // A policy that takes more memory than there is fails alone: what runs keeps running.
  if (const Result<void> had_memory = with_memory([&] { make_reload(job, old, before); }); !had_memory) {
    job.next = nullptr;
    fail_for_now(*job.answer, had_memory.error());
  }
  job.policy.reset();
  if (job.next != nullptr) return;
  if (journal_) journal_->roll_back();
  malloc_trim(0);
}

// Returns early, with the reason, as soon as a step fails.
void Maker::make_reload(ReloadJob& job, const Running* old, const Book* before) {
  const ReloadCause& cause = job.cause;
  ReloadAnswer& answer = *job.answer;
  std::optional<Policy>& policy = job.policy;
  if (cause.back && cause.back->added_up_to != 0) {
    const Result<Journal*> journal = this->journal();
    Result<void> done = journal ? (*journal)->begin(numbers_.next()) : Result<void>(Error{journal.error()});
    if (done) done = (*journal)->go_back(job.way_back, cause.back->added_up_to);
    if (!done) return fail_for_now(answer, done.error());
  }
  add_journal(policy->lists, before);
  policy->gates_for = kinds_of(targets_of(*policy));
  const auto whole = std::make_shared<const Policy>(std::move(*policy));
  policy.reset();
  std::shared_ptr<Running> next = running_of(whole);
  next->policy_path = cause.policy_path;
  answer.refused = refused_feeds(*next->book);
  if (old != nullptr) job.before = old->book;
  if (old != nullptr) job.before_base = old->base;
  if (cause.policy_text != nullptr && !cause.builds_all && old != nullptr && next->inputs &&
      next->inputs == old->inputs) {
    keep_published(*old, *next);
    job.saved = keep_book(*next);
    job.is_same = true;
    job.next = next;
    return;
  }
  if (cause.promoted) {
    const Result<bool> made = make_promotion(*next, old, *cause.promoted);
    if (!made || !*made) {
      answer.error = made ? "what changed since the shadow began takes another snapshot than the one that was judged\n"
                            "hint: begin the shadow anew, or reload the policy"
                          : made.error();
      return;
    }
    answer.notice = notice_of_promotion(*cause.promoted);
  } else if (const Result<void> made = make_publication_for(cause, *next, old); !made) {
    answer.error = made.error();
    answer.may_pass = made.failure().may_pass;
    return;
  }
  if (old != nullptr && !cause.promoted) {  // what a promotion does has been seen
    if (const Result<void> kept = keep_to_limits(job, next, *old); !kept) {
      answer.error = kept.error();
      answer.may_pass = kept.failure().may_pass;
      return;
    }
  }
  job.targets = targets_of(*whole);
  if (!settings_.state_dir && whole->state_dir != store_.state_dir()) {
    log::warning("state_dir changed: the old one stays in use until controld starts anew",
                 {{"state_dir", whole->state_dir}, {"in_use", store_.state_dir()}});
  }
  job.capture = whole->capture;
  job.metrics = whole->metrics;
  job.plan = whole->plan;
  if (cause.wish.compiled) {
    if (const Result<void> noted = cause.wish.compiled(); !noted) {
      answer.error = noted.error();
      return;
    }
  }
  answer.entries = next->report.entries;
  answer.snapshot_bytes = next->report.snapshot_bytes;
  answer.phases.insert(answer.phases.end(), next->report.phases.begin(), next->report.phases.end());

  // Before anybody is given it: a restart never goes behind what was enforced.
  const Clock::time_point storing = Clock::now();
  progress_.begin("store");
  const bool has_number = next->publication->generation == numbers_.last();  // a candidate that is promoted
  job.saved = has_number ? numbers_.save() : numbers_.commit();
  next->base = next->publication->generation.number;
  if (const Result<void> noted = note(job, old); !noted) return fail_for_now(answer, noted.error());
  const Result<void> kept = keep(*next, job.targets);
  if (job.saved) job.saved = kept;
  answer.phases.push_back({"store", ms_between(storing, Clock::now())});
  job.next = std::move(next);
}

// A person who reloads gets a new base; feeds that change by themselves need none, nor does a revision that differs
// little from the one before. A rebuild copies nothing of what runs.
Result<void> Maker::make_publication_for(const ReloadCause& cause, Running& next, const Running* old) {
  if (cause.builds_all) return make_publication(next, nullptr, Make::whole);
  const bool is_by_itself = cause.policy_text != nullptr || !cause.wish.policy_file.empty();
  return make_publication(next, old, is_by_itself ? Make::overlay : Make::whole);
}

// A copy of what runs, under the next number, when nothing has changed that a snapshot depends on.
Result<Compiled> Maker::compile_or_copy(const Running& next, const Running* old) {
  if (old != nullptr && next.inputs && next.inputs == old->inputs && old->publication->base == nullptr) {
    const Publication& running = *old->publication;
    const Result<Mapping> bytes = map_read_only(running.snapshot.get(), running.size_bytes);
    Result<Compiled> copy = bytes ? renumber(bytes->bytes(), running.digest, old->report, numbers_.next())
                                  : Result<Compiled>(bytes.failure());
    if (copy) return copy;
    log::error("the running snapshot is not copied but built anew", {{"error", copy.error()}});
  }
  return compile(*next.policy, numbers_.next(), settings_.build_threads, &progress_);
}

// A person who reloads is told, and may insist. Feeds that change by themselves, or beside one that a person accepts,
// are held back, list by list, and the rest is published.
Result<void> Maker::keep_to_limits(ReloadJob& job, std::shared_ptr<Running>& next, const Running& old) {
  const ReloadCause& cause = job.cause;
  const PlanSettings& limits = next->policy->plan;
  if (!limits.max_newly_dropped && !limits.max_newly_passed) return {};
  if (cause.traffic == nullptr || cause.traffic->frames.empty() || cause.back) return {};
  const Result<Enforcing> before = enforcing_of(old);
  if (!before) return before.failure();
  Result<Radius> radius = radius_between(*before, *next, *cause.traffic, cause.accepted_feeds);
  if (!radius) return radius.failure();
  ReloadAnswer& answer = *job.answer;
  answer.over_limits = over_limits(limits, *radius);
  if (answer.over_limits.empty()) return {};
  const std::string why = answer.over_limits.front().text();
  if (cause.wish.is_forced) {
    log::warning("the limits of `plan` are exceeded, as was asked for", {{"why", why}, {"cause", cause.text}});
    return {};
  }
  const bool is_by_feeds = cause.policy_text != nullptr;
  if (!is_by_feeds && cause.accepted_feeds.empty()) return Error{why};

  Policy policy = *next->policy;
  size_t held = 0;
  const auto now = unix_now();
  for (const ListChange& change : list_changes(*old.book, policy.lists)) {
    const auto named = [&](const List& list) { return list.name == change.name; };
    const auto list = std::find_if(policy.lists.begin(), policy.lists.end(), named);
    const auto was = std::find_if(old.book->begin(), old.book->end(), named);
    if (list == policy.lists.end() || was == old.book->end() || list->feed.path.empty()) continue;
    if (cause.accepted_feeds.contains(list->name) || !has_same_settings(*was, *list)) continue;
    const auto credit = std::find_if(radius->credits.begin(), radius->credits.end(),
                                     [&](const Radius::Credit& one) { return one.name == change.name; });
    const bool passes_more = list->action == WEIR_PASS && radius->newly_passed.value > 0;
    if (credit == radius->credits.end() && !passes_more) continue;
    log::warning("feed refused: its list keeps what it had", {{"list", list->name}, {"why", why}});
    hold_back(*was, why, now, *list);
    held++;
  }
  if (held == 0) return Error{why};
  const auto whole = std::make_shared<const Policy>(std::move(policy));
  next = running_of(whole);
  answer.refused = refused_feeds(*next->book);
  const Result<void> made = make_publication_for(cause, *next, &old);
  if (!made || is_by_feeds) return made;
  // The rest has a policy file, which may have been edited.
  radius = radius_between(*before, *next, *cause.traffic, cause.accepted_feeds);
  if (!radius) return radius.failure();
  const std::vector<OverLimit> rest = over_limits(limits, *radius);
  return rest.empty() ? Result<void>() : Error{rest.front().text()};
}

// The next reload, and every start, reads the policy file that controld was given.
std::string Maker::notice_of_promotion(const Shadowing& promoted) const {
  const Result<std::string> configured = read_file(settings_.config, kMaxPolicyBytes);
  if (configured && *configured == *promoted.text) return "";
  return fmt::format("the next reload, or start, reads {}, which {}: put {} there to keep what is enforced now",
                     settings_.config, configured ? "says something else" : "cannot be read", promoted.path);
}

// Before anybody is given it: what a start has to know, in the transaction of a rollback.
Result<void> Maker::note(const ReloadJob& job, const Running* old) {
  const ReloadCause& cause = job.cause;
  const Result<Journal*> journal = this->journal();
  const bool must_be_known = cause.back || cause.wish.confirm_s != 0;
  if (!journal) return must_be_known ? Result<void>(Error{journal.error()}) : Result<void>();
  Generations& generations = (*journal)->generations();
  const bool has_begun = cause.back && cause.back->added_up_to != 0;
  Result<void> done = has_begun ? Result<void>() : (*journal)->begin(numbers_.last());
  const bool keeps_held = cause.policy_text != nullptr;  // feeds: the policy is the same
  if (done && !keeps_held) {
    done = generations.set_note(kHeld, job.back_base == 0 ? "" : std::to_string(job.back_base));
  }
  if (done) {
    const bool waits = cause.wish.confirm_s != 0 && old != nullptr;
    done = generations.set_note(kUnconfirmed, waits ? std::to_string(old->base) : "");
  }
  if (done) done = (*journal)->commit();
  if (!done) (*journal)->roll_back();
  return must_be_known ? done : Result<void>();
}

void Maker::record(ReloadJob& job) {
  Result<void> kept =
      with_memory([&] { job.answer->changes = list_changes(job.before ? *job.before : Book(), *job.next->book); });
  if (kept) kept = keep_book(*job.next);
  if (job.saved) job.saved = kept;
  record_generation(job);
  // Here, so that no `explain` holds the loop for it.
  const Result<const filter::SnapshotView*> opened = job.next->snapshot->view();
  if (!opened) log::error("the new snapshot cannot be looked into", {{"error", opened.error()}});
  // Memory of reading and compiling goes back to the system: the next policy needs as much again.
  malloc_trim(0);
}

// When it is published: what it was, and its content. What cannot be kept is said; it is enforced all
// the same.
void Maker::record_generation(const ReloadJob& job) {
  const Running& next = *job.next;
  const wire::Generation generation = next.publication->generation;
  Result<void> kept = job.saved;
  if (kept && next.policy_text != nullptr) kept = history_.keep(generation, *next.policy_text);
  const Result<Journal*> journal = this->journal();
  if (kept && !journal) kept = Error{journal.error()};
  if (journal) {
    Generations& generations = (*journal)->generations();
    const HistorySettings& settings = next.policy->history;
    Result<void> done = (*journal)->begin(generation);
    if (done) {
      done = generations.add(generation.epoch, {generation.number, unix_now(), job.cause.text, job.cause.wish.uid,
                                                next.base, job.answer->changes});
    }
    if (done && kept && job.cause.back) done = generations.set_note(kHeld, std::to_string(generation.number));
    if (done) {
      const Result<std::vector<GenerationRecord>> past = generations.newest(generation.epoch, Generations::kMost);
      uint64_t oldest = generation.number;
      for (const GenerationRecord& record : past ? *past : std::vector<GenerationRecord>()) {
        if (record.at + int64_t{settings.keep_s} < unix_now()) break;
        oldest = record.number;
      }
      if (job.before_base != 0) oldest = std::min(oldest, job.before_base);  // to go back to
      const Result<std::vector<uint64_t>> bases = generations.bases(generation.epoch);
      std::vector<uint64_t> wanted = bases ? *bases : std::vector<uint64_t>();
      std::erase_if(wanted, [&](uint64_t base) { return base < oldest; });
      if (kept) history_.keep_more(generation, feeds_to_keep(*next.book), settings.size_bytes);
      const uint64_t first = history_.trim(wanted, settings.size_bytes);
      done = generations.forget_before({generation.epoch, std::max(oldest, first)});
    }
    if (done) done = (*journal)->commit();
    if (!done) (*journal)->roll_back();
    if (kept) kept = done;
  }
  if (!kept)
    log::error("a generation is not kept for a rollback", {{"generation", generation.number}, {"error", kept.error()}});
}

Maker::Notes Maker::notes() {
  const Result<Journal*> journal = this->journal();
  if (!journal) return {};
  Generations& generations = (*journal)->generations();
  return {number_of(generations.note(kHeld)), number_of(generations.note(kUnconfirmed))};
}

uint64_t Maker::newest_kept(uint64_t up_to) {
  const Result<Journal*> journal = this->journal();
  const Result<std::vector<uint64_t>> bases =
      journal ? (*journal)->generations().bases(epoch_) : Result<std::vector<uint64_t>>(Error{journal.error()});
  uint64_t newest = 0;
  for (const uint64_t base : bases ? *bases : std::vector<uint64_t>()) {
    if (base <= up_to && history_.has(base)) newest = std::max(newest, base);
  }
  return newest;
}

Result<void> Maker::confirm(wire::Generation stays) {
  const Result<Journal*> journal = this->journal();
  Result<void> noted = journal ? (*journal)->begin(stays) : Result<void>(Error{journal.error()});
  if (noted) noted = (*journal)->generations().set_note(kUnconfirmed, "");
  if (noted) noted = (*journal)->commit();
  if (!noted && journal) (*journal)->roll_back();
  return noted;
}

}  // namespace weir::control
