#include <fmt/format.h>
#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "common/files.h"
#include "common/memory.h"
#include "control/book/disk.h"
#include "control/daemon/daemon.h"
#include "control/read/policy.h"

// One reload, from the policy file to the last target's acknowledgement: on the worker, on the loop, and again.
namespace weir::control {

namespace {

constexpr std::chrono::seconds kKeepAgain{1};

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// Of those that sample what they drop.
std::vector<std::string> sockets_of(const std::vector<TargetSpec>& specs) {
  std::vector<std::string> sockets;
  for (const TargetSpec& spec : specs) {
    if (traits_of(spec.kind).why_no_samples == nullptr) sockets.push_back(spec.name);
  }
  return sockets;
}

// Interfaces on which nothing is enforced, and why; empty: none.
std::string not_attached(const TargetState& state) {
  std::string text;
  if (!state.interfaces) return text;
  for (const wire::InterfaceBody& interface : *state.interfaces) {
    if (interface.attached != 0) continue;
    text += fmt::format("{}not attached to {}: {}", text.empty() ? "" : "; ", wire::get_text(interface.name),
                        wire::get_text(interface.error));
  }
  return text;
}

}  // namespace

void Daemon::reload(Reloaded done) {
  // One that runs already may have read the policy before the caller changed it.
  (is_reloading_ ? asking_for_next_ : asking_).push_back(std::move(done));
  if (!is_reloading_) begin_reload();
}

Result<void> Daemon::accept_feed(const std::string& list, Reloaded done) {
  const auto& lists = running_->lists;
  const auto found = std::find_if(lists.begin(), lists.end(), [&](const ListSummary& one) { return one.name == list; });
  if (found == lists.end()) return Error{fmt::format("no list is called '{}'", list)};
  if (found->file.empty()) return Error{fmt::format("list '{}' has no feed", list)};
  spdlog::warn("the feed of list {} is accepted as it is", list);
  accepted_feeds_.insert(list);
  reload(std::move(done));
  return {};
}

void Daemon::begin_reload() {
  is_reloading_ = true;
  worker_.submit([this, old = running_, before = running_ != nullptr ? running_->book : book_before_,
                  accept = std::exchange(accepted_feeds_, {})] {
    FeedHistory history(before.get());
    // What another version of this program may have read is not taken over, but for feeds that are refused.
    history.is_ours = old != nullptr && !old->from_last_good;
    history.accept = accept;
    history.parsers = options_.parsers;
    const std::shared_ptr<Prepared> prepared = prepare(old.get(), history);
    mailbox_.post([this, prepared] { take_prepared(prepared); });
  });
}

// On the worker. A policy that takes more memory than there is fails alone: what runs keeps running.
std::shared_ptr<Daemon::Prepared> Daemon::prepare(const Running* old, const FeedHistory& history) {
  auto prepared = std::make_shared<Prepared>();
  prepared->begin = Clock::now();
  prepared->report = std::make_shared<ReloadReport>();
  prepared->report->at = time(nullptr);
  if (const Result<void> had_memory = with_memory([&] { prepare(*prepared, old, history); }); !had_memory) {
    prepared->next = nullptr;
    prepared->report->error = had_memory.error();
  }
  if (prepared->next == nullptr) malloc_trim(0);
  return prepared;
}

// read -> compile -> number and last good on disk. Returns early, with the reason, as soon as a step fails; only the
// disk may fail. old: what runs; null: nothing does.
void Daemon::prepare(Prepared& prepared, const Running* old, const FeedHistory& history) {
  ReloadReport& report = *prepared.report;
  phase_ = "read";
  std::optional<Policy> policy = read_policy(options_.config, report.diagnostics, unix_now(), history);
  if (!policy) return;
  report.phases.push_back({"read", ms_between(prepared.begin, Clock::now())});

  auto next = std::make_shared<Running>();
  next->inputs = inputs_digest(*policy);
  Result<Compiled> compiled = compile_or_copy(*policy, old, *next);
  if (!compiled) {
    report.error = compiled.error();
    return;
  }
  auto publication = std::make_shared<Publication>();
  publication->generation = compiled->generation;
  publication->snapshot = std::move(compiled->snapshot);
  publication->size_bytes = compiled->size_bytes;
  publication->digest = compiled->digest;
  next->publication = publication;
  next->snapshot = std::make_shared<OpenSnapshot>(publication);
  next->book = std::make_shared<const Book>(policy->lists);
  next->lists = summarise(*next->book);
  report.refused = refused_feeds(next->lists);
  next->report = std::move(compiled->report);
  next->memory_limit = policy->memory_bytes;
  prepared.targets = options_.targets.empty() ? policy->targets : options_.targets;
  if (!options_.state_dir && policy->state_dir != store_.state_dir()) {
    spdlog::warn("state_dir is now {}: {} stays in use until controld starts anew", policy->state_dir,
                 store_.state_dir());
  }
  prepared.capture = policy->capture;
  report.entries = next->report.entries;
  report.snapshot_bytes = next->report.snapshot_bytes;
  report.phases.insert(report.phases.end(), next->report.phases.begin(), next->report.phases.end());

  // Before anybody is given it: a restart never goes behind what was enforced.
  const Clock::time_point storing = Clock::now();
  prepared.saved = numbers_.commit();
  const Result<void> kept = keep(*next, prepared.targets);
  if (prepared.saved) prepared.saved = kept;
  report.phases.push_back({"store", ms_between(storing, Clock::now())});
  if (old != nullptr) prepared.before = old->book;
  prepared.next = std::move(next);
}

// A copy of what runs, under the next number, when nothing has changed that a snapshot depends on.
Result<Compiled> Daemon::compile_or_copy(const Policy& policy, const Running* old, const Running& next) {
  if (old != nullptr && next.inputs && next.inputs == old->inputs) {
    const Publication& running = *old->publication;
    const Result<Mapping> bytes = map_read_only(running.snapshot.get(), running.size_bytes);
    Result<Compiled> copy = bytes ? renumber(bytes->bytes(), running.digest, old->report, numbers_.next())
                                  : Result<Compiled>(Error{bytes.error()});
    if (copy) return copy;
    spdlog::error("the running snapshot is not copied but built anew: {}", copy.error());
  }
  return compile(policy, numbers_.next(), options_.build_threads, [this](const char* phase) { phase_ = phase; });
}

// On the loop: to the targets, whose links take it from here, and back to the worker.
void Daemon::take_prepared(const std::shared_ptr<Prepared>& prepared) {
  if (stopping_) return;
  ReloadReport& report = *prepared->report;
  if (prepared->next == nullptr) return finish_reload(*prepared);
  phase_ = "publish";
  const Clock::time_point publishing = Clock::now();
  prepared->next->published_at = time(nullptr);
  set_targets(prepared->targets);
  publish(prepared->next);
  capture_.configure(prepared->capture, sockets_of(prepared->targets));
  report.generation = running_->publication->generation;
  capture_.published(report.generation);
  prepared->published = Clock::now();
  report.phases.push_back({"publish", ms_between(publishing, prepared->published)});
  worker_.submit([this, prepared] {
    Result<void> kept = with_memory([&] {
      prepared->report->changes = list_changes(prepared->before ? *prepared->before : Book(), *prepared->next->book);
    });
    if (kept) kept = keep_book(*prepared->next);
    if (prepared->saved) prepared->saved = kept;
    // Here, so that no `explain` holds the loop for it.
    const Result<const filter::SnapshotView*> opened = prepared->next->snapshot->view();
    if (!opened) spdlog::error("the new snapshot cannot be looked into: {}", opened.error());
    // What reading and compiling took goes back to the system: entries of the next policy need as much again.
    malloc_trim(0);
    mailbox_.post([this, prepared] { take_kept(prepared); });
  });
}

// On the worker: the last good, and who is to have it.
Result<void> Daemon::keep(const Running& next, const std::vector<TargetSpec>& targets) {
  if (const Result<void> kept = keep_in_force(targets); !kept) {
    spdlog::error("who enforces is not kept beside the last good: {}", kept.error());
  }
  Result<void> saved = store_.save(*next.publication);
  if (saved) kept_ = next.publication->generation;
  return saved;
}

// On the worker.
Result<void> Daemon::keep_book(const Running& running) {
  Result<void> saved;
  const Result<void> had_memory = with_memory([&] {
    const std::string book = write_book(*running.book);
    saved = store_.save_book(running.publication->generation, std::as_bytes(std::span(book)));
  });
  return had_memory ? saved : had_memory;
}

// The disk failed: until it does not, what runs would not outlive a restart.
void Daemon::keep_again() {
  again_ = loop_.timer(Clock::now() + kKeepAgain, [this] {
    std::vector<TargetSpec> targets;
    for (const auto& link : targets_) targets.push_back(link->spec());
    worker_.submit([this, targets, running = running_] {
      Result<void> saved = numbers_.save();
      // A reload that came first may have kept something newer.
      if (saved && running->publication->generation.number > kept_.number) saved = keep(*running, targets);
      if (saved) saved = keep_book(*running);
      mailbox_.post([this, saved, generation = running->publication->generation] {
        if (stopping_ || running_->publication->generation != generation) return;  // the newer one says how it is
        if (!saved) return keep_again();
        spdlog::info("generation {} is on disk now", generation.number);
        disk_error_.clear();
      });
    });
  });
}

// Kept with the last good, for a start on a policy that cannot be read.
Result<void> Daemon::keep_in_force(const std::vector<TargetSpec>& targets) {
  InForce now{config_, targets};
  if (in_force_ != now) {
    if (Result<void> written = write_in_force(store_.state_dir(), now); !written) return written;
    in_force_ = std::move(now);
  }
  if (options_.state_dir) return {};
  return remember_state_dir(options_.default_state_dir, config_, store_.state_dir());
}

void Daemon::take_kept(const std::shared_ptr<Prepared>& prepared) {
  if (stopping_) return;
  disk_error_ = prepared->saved ? "" : prepared->saved.error();
  if (!prepared->saved) {
    prepared->report->error = "enforced, not durable: " + disk_error_;
    keep_again();
  }
  const auto finish = [this, prepared] {
    if (stopping_) return;
    if (!is_first_) acknowledge(*prepared);
    finish_reload(*prepared);
  };
  if (is_first_) return finish();
  const auto is_settled = [this, generation = prepared->report->generation] {
    return std::all_of(targets_.begin(), targets_.end(),
                       [&](const auto& target) { return target->is_settled(generation); });
  };
  phase_ = "acknowledge";
  waits_.add(is_settled, prepared->published + std::chrono::milliseconds(options_.acknowledge_ms), finish);
}

void Daemon::acknowledge(Prepared& prepared) {
  ReloadReport& report = *prepared.report;
  Clock::time_point last = prepared.published;
  size_t missing = 0;
  for (const auto& target : targets_) {
    const TargetState& state = target->state();
    TargetOutcome outcome{target->name(), state.acknowledged == report.generation, ""};
    if (outcome.acknowledged) {
      last = std::max(last, state.acknowledged_at);
      outcome.error = not_attached(state);
      if (outcome.error.empty() && state.status && state.status->snapshot_durable == 0) {
        outcome.error = "enforced, not durable: " + wire::get_text(state.status->disk_error);
      }
      outcome.acknowledged = outcome.error.empty();
    } else {
      last = Clock::now();
      outcome.error =
          state.last_error.empty() ? fmt::format("no answer within {} ms", options_.acknowledge_ms) : state.last_error;
    }
    if (!outcome.acknowledged) missing++;
    report.targets.push_back(std::move(outcome));
  }
  report.phases.push_back({"acknowledge", ms_between(prepared.published, last)});
  if (missing != 0 && report.error.empty()) {
    report.error = fmt::format("{} of {} targets did not acknowledge", missing, targets_.size());
  }
}

void Daemon::finish_reload(const Prepared& prepared) {
  const std::shared_ptr<ReloadReport>& report = prepared.report;
  report->total_ms = ms_between(prepared.begin, Clock::now());
  report->ok = report->diagnostics.ok() && report->error.empty();
  fputs(format(report->diagnostics).c_str(), stderr);
  if (prepared.next != nullptr) {
    spdlog::info("generation {}: {} entries, {} bytes, {:.1f} ms", report->generation.number, report->entries,
                 report->snapshot_bytes, report->total_ms);
  } else if (running_ != nullptr) {
    report->generation = running_->publication->generation;
  }
  if (!report->ok) {
    const std::string policy_errors = fmt::format("errors in the policy: {}", report->diagnostics.errors());
    spdlog::error("reload: {}", report->error.empty() ? policy_errors : report->error);
  }
  last_reload_ = report;
  is_first_ = false;
  const std::vector<Reloaded> asking = std::exchange(asking_, std::exchange(asking_for_next_, {}));
  is_reloading_ = !asking_.empty();
  phase_ = "";
  if (is_reloading_) begin_reload();
  for (const Reloaded& done : asking) done(last_reload_);
}

}  // namespace weir::control
