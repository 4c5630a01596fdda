#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "common/files.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/host_supplies.h"
#include "control/policy/read/policy.h"

// One reload, from the policy file to the last target's acknowledgement: on the worker, on the loop, and again. Why it
// begins is in cause.cpp.
namespace weir::control {

namespace {

constexpr int kMostWritingMs = 5000;

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// Who asked, and how long it took from then.
log::Fields by_whom(uint32_t uid, int32_t pid, double ms) {
  log::Fields fields;
  if (uid != kNobody) fields = {{"user", uid}, {"process", pid}};
  fields.emplace_back("took", log::milliseconds(ms));
  return fields;
}

// Of what is not compiled again.
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

}  // namespace

std::shared_ptr<Running> running_of(std::shared_ptr<const Policy> policy) {
  auto next = std::make_shared<Running>();
  next->policy_text = policy->text;
  next->fetched = fetched_feeds(*policy);
  next->inputs = inputs_digest(*policy);
  next->book = std::shared_ptr<const Book>(policy, &policy->lists);
  next->lists = summarise(*next->book);
  next->policy = std::move(policy);
  return next;
}

FeedHistory Daemon::history_of(const Book* before, bool is_ours) const {
  FeedHistory history(before);
  history.is_ours = is_ours;
  history.parsers = options_.parsers;
  history.state_dir = store_.state_dir();
  if (fleet_) history.node_file = options_.config;
  if (options_.guards_host) history.host_supplies = host_supplies;
  history.has_targets = !options_.targets.empty();
  return history;
}

void Daemon::begin_reload() {
  const auto reload = reloading_ = std::make_shared<Prepared>();
  reload->cause = next_cause();
  reload->serial = ++reloads_;
  reload->begin = Clock::now();
  reload->report = std::make_shared<ReloadReport>();
  reload->report->at = unix_now();
  reload->report->cause = reload->cause.text;
  const bool is_by_feeds = reload->cause.policy_text != nullptr;
  const auto has_limits = [](const PlanSettings& plan) { return plan.max_newly_dropped || plan.max_newly_passed; };
  const bool may_have_limits = !is_by_feeds || (running_->policy && has_limits(running_->policy->plan));
  if (may_have_limits) reload->cause.traffic = recent_traffic();
  log::info("reload begins", {{"cause", reload->cause.text}});
  reader_.submit([this, reload, is_by_feeds, is_ours = running_ != nullptr && !running_->from_last_good,
                  before = running_ != nullptr ? running_->book : book_before_] {
    // What another version of this program may have read is not taken over, but for feeds that are refused.
    FeedHistory history = history_of(before.get(), is_ours);
    history.accept = reload->cause.accepted_feeds;
    history.progress = &progress_;
    if (watch_ != nullptr) {
      // Whoever asks for a reload means a file that nobody has written to for a while, though it is still open.
      std::optional<int> most_ms;
      if (!is_by_feeds) most_ms = kMostWritingMs;
      history.is_being_written = [this, most_ms](const std::string& path) {
        return watch_->is_being_written(path, most_ms);
      };
    }
    if (options_.fetches) {
      history.fetch_first = [this, &reload](const FetchSettings& settings, const std::vector<FetchedFeed>& feeds) {
        log::info("feeds that there is nothing of yet are fetched first", {{"feeds", feeds.size()}});
        return fetcher_.fetch_first(settings, feeds, reload->is_given_up);
      };
    }
    if (const Result<void> had_memory = with_memory([&] { read(*reload, history); }); !had_memory) {
      reload->policy.reset();
      reload->report->error = had_memory.error();
    }
    if (!reload->policy) malloc_trim(0);
    mailbox_.post([this, reload] { take_read(reload); });
  });
}

// On the reader: the policy and its feeds, or what was enforced before.
void Daemon::read(Prepared& prepared, const FeedHistory& history) {
  const Cause& cause = prepared.cause;
  progress_.begin("read", "bytes");
  if (cause.back) {
    read_former(prepared);
  } else {
    const std::string path = cause.policy_path.empty() ? options_.config : cause.policy_path;
    const std::shared_ptr<const std::string> text = cause.promoted ? cause.promoted->text : cause.policy_text;
    Diagnostics& diagnostics = prepared.report->diagnostics;
    prepared.policy = text == nullptr ? read_policy(path, diagnostics, unix_now(), history)
                                      : read_policy_text(path, *text, diagnostics, unix_now(), history);
  }
  prepared.report->phases.push_back({"read", ms_between(prepared.begin, Clock::now())});
}

// On the loop.
void Daemon::take_read(const std::shared_ptr<Prepared>& read) {
  if (stopping_ || reloading_ != read) return;
  if (read->policy) {
    read->stage = Prepared::Stage::read;
    return begin_next();
  }
  read->report->phases.clear();
  reloading_ = nullptr;
  follow_feeds();
  finish_reload(*read);
}

// running_ may have changed since reading began: entries were added meanwhile.
void Daemon::make_reload() {
  is_making_ = true;
  reloading_->stage = Prepared::Stage::making;
  worker_.submit(
      [this, prepared = reloading_, old = running_, before = running_ != nullptr ? running_->book : book_before_] {
        // A policy that takes more memory than there is fails alone: what runs keeps running.
        if (const Result<void> had_memory = with_memory([&] { prepare(*prepared, old.get(), before.get()); });
            !had_memory) {
          prepared->next = nullptr;
          prepared->report->error = had_memory.error();
        }
        prepared->policy.reset();
        if (prepared->next == nullptr && journal_) journal_->roll_back();
        if (prepared->next == nullptr) malloc_trim(0);
        mailbox_.post([this, prepared] { take_prepared(prepared); });
      });
}

// On the loop: the worker is done with a reload, whatever became of it.
void Daemon::end_making() {
  is_making_ = false;
  reloading_ = nullptr;
  follow_feeds();
}

// On the worker: compile -> number and last good on disk. Returns early, with the reason, as soon as a step fails; only
// the disk may fail. old: what runs; null: nothing does. before: its lists, or those of the last good.
void Daemon::prepare(Prepared& prepared, const Running* old, const Book* before) {
  const Cause& cause = prepared.cause;
  ReloadReport& report = *prepared.report;
  std::optional<Policy>& policy = prepared.policy;
  if (cause.back && cause.back->added_up_to != 0) {
    const Result<Journal*> journal = this->journal();
    Result<void> done = journal ? (*journal)->begin(numbers_.next()) : Result<void>(Error{journal.error()});
    if (done) done = (*journal)->go_back(prepared.way_back, cause.back->added_up_to);
    if (!done) return void(report.error = done.error());
  }
  add_journal(policy->lists, before);
  const auto whole = std::make_shared<const Policy>(std::move(*policy));
  policy.reset();
  std::shared_ptr<Running> next = running_of(whole);
  next->policy_path = cause.policy_path;
  report.refused = refused_feeds(next->lists);
  if (old != nullptr) prepared.before = old->book;
  if (old != nullptr) prepared.before_base = old->base;
  if (cause.policy_text != nullptr && !cause.anew && old != nullptr && next->inputs && next->inputs == old->inputs) {
    keep_published(*old, *next);
    prepared.saved = keep_book(*next);
    prepared.is_same = true;
    prepared.next = next;
    return;
  }
  // A person who reloads gets a new base; what feeds change by themselves needs none, nor does a revision that differs
  // little from the one before. Anew: nor is what runs copied.
  const bool is_by_itself = cause.policy_text != nullptr || !cause.wish.policy_file.empty();
  const Make make = is_by_itself && !cause.anew ? Make::overlay : Make::whole;
  if (cause.promoted) {
    const Result<bool> made = make_promotion(*next, old, *cause.promoted);
    if (!made || !*made) {
      report.error = made ? "what changed since the shadow began takes another snapshot than the one that was judged\n"
                            "hint: begin the shadow anew, or reload the policy"
                          : made.error();
      return;
    }
    report.notice = notice_of_promotion(*cause.promoted);
  } else if (auto made = make_publication(*next, cause.anew ? nullptr : old, make, &progress_); !made) {
    report.error = made.error();
    return;
  }
  if (old != nullptr && !cause.promoted) {  // what a promotion does has been seen
    if (const Result<void> kept = keep_to_limits(prepared, next, *old, cause); !kept) {
      report.error = kept.error();
      return;
    }
  }
  prepared.targets = options_.targets.empty() ? whole->targets : options_.targets;
  if (!options_.state_dir && whole->state_dir != store_.state_dir()) {
    log::warning("state_dir changed: the old one stays in use until controld starts anew",
                 {{"state_dir", whole->state_dir}, {"in_use", store_.state_dir()}});
  }
  prepared.capture = whole->capture;
  prepared.metrics = whole->metrics;
  prepared.plan = whole->plan;
  if (cause.wish.compiled) {
    if (const Result<void> noted = cause.wish.compiled(); !noted) {
      report.error = noted.error();
      return;
    }
  }
  report.entries = next->report.entries;
  report.snapshot_bytes = next->report.snapshot_bytes;
  report.phases.insert(report.phases.end(), next->report.phases.begin(), next->report.phases.end());

  // Before anybody is given it: a restart never goes behind what was enforced.
  const Clock::time_point storing = Clock::now();
  progress_.begin("store");
  const bool has_number = next->publication->generation == numbers_.last();  // a candidate that is promoted
  prepared.saved = has_number ? numbers_.save() : numbers_.commit();
  next->base = next->publication->generation.number;
  if (Result<void> noted = note(prepared, old); !noted) {
    report.error = noted.error();
    return;
  }
  const Result<void> kept = keep(*next, prepared.targets);
  if (prepared.saved) prepared.saved = kept;
  report.phases.push_back({"store", ms_between(storing, Clock::now())});
  prepared.next = std::move(next);
}

// On the loop: the feeds changed, and what is enforced did not.
void Daemon::take_same(const std::shared_ptr<Prepared>& prepared) {
  running_ = prepared->next;
  end_making();
  ReloadReport& report = *prepared->report;
  report.generation = running_->publication->generation;
  report.entries = running_->report.entries;
  report.snapshot_bytes = running_->report.snapshot_bytes;
  if (!prepared->saved) report.error = "the states of feeds are not durable: " + prepared->saved.error();
  finish_reload(*prepared);
}

// A copy of what runs, under the next number, when nothing has changed that a snapshot depends on.
Result<Compiled> Daemon::compile_or_copy(const Running& next, const Running* old, Progress* progress) {
  if (old != nullptr && next.inputs && next.inputs == old->inputs && old->publication->base == nullptr) {
    const Publication& running = *old->publication;
    const Result<Mapping> bytes = map_read_only(running.snapshot.get(), running.size_bytes);
    Result<Compiled> copy = bytes ? renumber(bytes->bytes(), running.digest, old->report, numbers_.next())
                                  : Result<Compiled>(Error{bytes.error()});
    if (copy) return copy;
    log::error("the running snapshot is not copied but built anew", {{"error", copy.error()}});
  }
  return compile(*next.policy, numbers_.next(), options_.build_threads, progress);
}

// On the loop: to the targets, whose links take it from here, and back to the worker.
void Daemon::take_prepared(const std::shared_ptr<Prepared>& prepared) {
  if (stopping_) return;
  ReloadReport& report = *prepared->report;
  if (prepared->next == nullptr) {
    end_making();
    return finish_reload(*prepared);
  }
  if (prepared->is_same) return take_same(prepared);
  progress_.begin("publish");
  const Clock::time_point publishing = Clock::now();
  prepared->next->published_at = unix_now();
  if (!prepared->cause.wish.policy_file.empty()) fleet_policy_ = prepared->cause.wish.policy_file;
  set_targets(prepared->targets);
  publish(prepared->next);
  tell_published(report.cause, by_whom(prepared->cause.wish.uid, prepared->cause.wish.pid,
                                       ms_between(prepared->begin, Clock::now())));
  if (prepared->cause.promoted && prepared->cause.promoted == shadow_) {
    end_shadow(fmt::format("promoted, in generation {}", running_->publication->generation.number), {});
  }
  compact_when_due();
  const bool places_stay = prepared->cause.back && prepared->cause.back->stays_there && !is_first_;
  if (!places_stay) {
    capture_.configure(prepared->capture, prepared->targets);
    metrics_ = prepared->metrics;
    reservoir_.set(prepared->plan);
    traffic_wanted_ = prepared->plan.samples != 0;
    if (options_.policy_taken) options_.policy_taken();
  }
  report.generation = running_->publication->generation;
  capture_.published(report.generation);
  take_cause(prepared->cause, prepared->before_base);
  const bool are_added_back = prepared->cause.back && prepared->cause.back->added_up_to != 0;
  if (are_added_back && options_.went_back) options_.went_back();
  prepared->published = Clock::now();
  report.phases.push_back({"publish", ms_between(publishing, prepared->published)});
  worker_.submit([this, prepared] {
    Result<void> kept = with_memory([&] {
      prepared->report->changes = list_changes(prepared->before ? *prepared->before : Book(), *prepared->next->book);
    });
    if (kept) kept = keep_book(*prepared->next);
    if (prepared->saved) prepared->saved = kept;
    record(*prepared);
    // Here, so that no `explain` holds the loop for it.
    const Result<const filter::SnapshotView*> opened = prepared->next->snapshot->view();
    if (!opened) log::error("the new snapshot cannot be looked into", {{"error", opened.error()}});
    // What reading and compiling took goes back to the system: entries of the next policy need as much again.
    malloc_trim(0);
    mailbox_.post([this, prepared] { take_kept(prepared); });
  });
}

void Daemon::take_kept(const std::shared_ptr<Prepared>& prepared) {
  if (stopping_) return;
  end_making();
  disk_error_ = prepared->saved ? "" : prepared->saved.error();
  if (!prepared->saved) {
    prepared->report->error = "enforced, not durable: " + disk_error_;
    keep_again();
  }
  const auto finish = [this, prepared] {
    if (!is_first_) acknowledge(*prepared);
    finish_reload(*prepared);
  };
  if (is_first_) return finish();
  // Who is away gets the newest when it returns: only somebody who asked waits for it, and no feed that changes next.
  const auto is_settled = [this, generation = prepared->report->generation,
                           is_asked = !prepared->cause.asking.empty()] {
    return std::all_of(targets_.begin(), targets_.end(), [&](const auto& target) {
      return target->is_settled(generation) || (!is_asked && !target->state().connected);
    });
  };
  progress_.begin("acknowledge");
  begin_next();  // nobody else waits for that
  waits_.add(is_settled, prepared->published + std::chrono::milliseconds(options_.acknowledge_ms), finish);
}

void Daemon::acknowledge(Prepared& prepared) {
  ReloadReport& report = *prepared.report;
  Clock::time_point last = prepared.published;
  report.targets = outcomes(report.generation, last);
  const auto missing = std::count_if(report.targets.begin(), report.targets.end(),
                                     [](const TargetOutcome& target) { return !target.acknowledged; });
  report.phases.push_back({"acknowledge", ms_between(prepared.published, last)});
  if (missing != 0 && report.error.empty()) {
    report.error = fmt::format("{} of {} targets did not acknowledge", missing, targets_.size());
  }
}

void Daemon::count(const Prepared& prepared) {
  using metrics::Outcome;
  const ReloadReport& report = *prepared.report;
  const bool is_by_feeds = prepared.cause.policy_text != nullptr;
  const metrics::Cause cause = is_first_             ? metrics::Cause::start
                               : prepared.cause.back ? metrics::Cause::rollback
                               : is_by_feeds         ? metrics::Cause::feeds
                                                     : metrics::Cause::asked;
  const Outcome outcome = prepared.next == nullptr ? Outcome::failed
                          : !report.ok             ? Outcome::incomplete
                          : prepared.is_same       ? Outcome::unchanged
                                                   : Outcome::published;
  constexpr double kMilli = 1e-3;
  tally_.add_reload(cause, outcome, report.total_ms * kMilli);
  for (const PhaseTime& phase : report.phases) tally_.add_phase(phase.name, phase.milliseconds * kMilli);
  if (running_ != nullptr) tally_.take_refused(refused_feeds(running_->lists));
}

void Daemon::finish_reload(Prepared& prepared) {
  const std::shared_ptr<ReloadReport>& report = prepared.report;
  report->total_ms = ms_between(prepared.begin, Clock::now());
  report->ok = report->diagnostics.ok() && report->error.empty();
  // What feeds cause may come every second, and find the same each time.
  const bool is_by_feeds = prepared.cause.policy_text != nullptr;
  const std::string told = format(report->diagnostics);
  if (!is_by_feeds || told != last_told_) log::tell(report->diagnostics, is_by_feeds);
  last_told_ = told;
  if (prepared.is_same) {
    log::info("the feeds hold what they held", {{"generation", report->generation.number}, {"cause", report->cause}});
  } else if (prepared.next != nullptr) {
    const auto acknowledged = std::count_if(report->targets.begin(), report->targets.end(),
                                            [](const TargetOutcome& target) { return target.acknowledged; });
    log::info("reload ends", {{"generation", report->generation.number},
                              {"changed_lists", report->changes.size()},
                              {"acknowledged", fmt::format("{}/{}", acknowledged, report->targets.size())},
                              {"took", log::milliseconds(report->total_ms)}});
  } else if (running_ != nullptr) {
    report->generation = running_->publication->generation;
  }
  if (!report->ok) {
    const std::string policy_errors = fmt::format("errors in the policy: {}", report->diagnostics.errors());
    log::error(prepared.next == nullptr ? "reload fails: what runs stays" : "reload ends with an error",
               {{"generation", report->generation.number},
                {"error", report->error.empty() ? policy_errors : report->error},
                {"cause", report->cause}});
  }
  count(prepared);
  if (prepared.serial > told_reload_) {  // a later one may have ended first
    told_reload_ = prepared.serial;
    last_reload_ = report;
  }
  is_first_ = false;
  if (reloading_ == nullptr) progress_.begin("");
  begin_next();
  for (const Reloaded& done : std::exchange(prepared.cause.asking, {})) done(report);
}

// Watches the files, and asks the servers, of the policy that runs.
void Daemon::follow_feeds() {
  watch_feeds();
  if (running_ != nullptr && running_->policy != nullptr) fetcher_.set(running_->policy->fetch, running_->fetched);
}

}  // namespace weir::control
