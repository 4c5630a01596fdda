#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/policy/read/feed_group.h"
#include "control/policy/read/policy.h"
#include "control/policy/read/supplies.h"

// A reload on the reader and on the loop, from the policy file to the last target's acknowledgement. intents.cpp
// decides when it begins, and maker_reload.cpp makes its publication.
namespace weir::control {

namespace {

constexpr int kMostWritingMs = 5000;
constexpr std::chrono::seconds kKeepAgain{1};    // what the disk did not take
constexpr std::chrono::seconds kGoBackAgain{1};  // to what nobody confirmed, when it failed

// The user and process that asked, and the time since then.
log::Fields by_whom(uint32_t uid, int32_t pid, double ms) {
  log::Fields fields;
  if (uid != kNobody) fields = {{"user", uid}, {"process", pid}};
  fields.emplace_back("took", log::milliseconds(ms));
  return fields;
}

}  // namespace

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

void Daemon::begin_reading(const std::shared_ptr<ReloadJob>& job) {
  const bool is_by_feeds = job->cause.policy_text != nullptr;
  const auto has_limits = [](const PlanSettings& plan) { return plan.max_newly_dropped || plan.max_newly_passed; };
  const bool may_have_limits = !is_by_feeds || (running_->policy && has_limits(running_->policy->plan));
  if (may_have_limits) job->cause.traffic = recent_traffic();
  reader_.submit([this, job, is_by_feeds, is_ours = running_ != nullptr && !running_->from_last_good,
                  before = running_ != nullptr ? feeds_before(*running_) : book_before_] {
    // Another version of this program may have read them otherwise: only refused feeds are taken over.
    FeedHistory history = history_of(before.get(), is_ours);
    history.accept = job->cause.accepted_feeds;
    history.progress = &progress_;
    if (watch_ != nullptr) {
      // A user who asks for a reload means a file that nobody writes to any more, though it is still open.
      std::optional<int> most_ms;
      if (!is_by_feeds) most_ms = kMostWritingMs;
      history.is_being_written = [this, most_ms](const std::string& path) {
        return watch_->is_being_written(path, most_ms);
      };
    }
    if (options_.fetches) {
      history.fetch_first = [this, &job](const FetchSettings& settings, const std::vector<FetchedFeed>& feeds) {
        log::info("feeds that there is nothing of yet are fetched first", {{"feeds", feeds.size()}});
        return fetcher_.fetch_first(settings, feeds, job->is_given_up);
      };
    }
    if (const Result<void> had_memory = with_memory([&] { read(*job, history); }); !had_memory) {
      job->policy.reset();
      job->answer->error = had_memory.error();
      job->answer->may_pass = true;
    }
    if (!job->policy) malloc_trim(0);
    mailbox_.post([this, job] { end_reading(job); });
  });
}

// On the reader: the policy and its feeds, or what was enforced before.
void Daemon::read(ReloadJob& job, const FeedHistory& history) {
  const ReloadCause& cause = job.cause;
  progress_.begin("read", "bytes");
  if (cause.back) {
    read_former(job);
  } else {
    const std::string path = cause.policy_path.empty() ? options_.config : cause.policy_path;
    const std::shared_ptr<const std::string> text = cause.promoted ? cause.promoted->text : cause.policy_text;
    Diagnostics& diagnostics = job.answer->diagnostics;
    job.policy = text == nullptr ? read_policy(path, diagnostics, unix_now(), history)
                                 : read_policy_text(path, *text, diagnostics, unix_now(), history);
  }
  job.answer->phases.push_back({"read", ms_between(job.begin, Clock::now())});
}

// On the loop.
void Daemon::end_reading(const std::shared_ptr<ReloadJob>& job) {
  if (intents_.is_given_up(*job)) return;
  if (job->policy) return intents_.was_read(job);
  job->answer->phases.clear();
  intents_.end_reload(job);
  follow_feeds();
  finish_reload(*job);
}

// running_ may have changed since reading began: entries were added meanwhile.
void Daemon::begin_making(const std::shared_ptr<ReloadJob>& job) {
  maker_thread_.submit(
      [this, job, old = running_, before = running_ != nullptr ? feeds_before(*running_) : book_before_] {
        maker_.make(*job, old.get(), before.get());
        mailbox_.post([this, job] { publish_reload(job); });
      });
}

// On the loop: the feeds changed, and what is enforced did not.
void Daemon::end_same(const std::shared_ptr<ReloadJob>& job) {
  running_ = job->next;
  intents_.end_reload(job);
  follow_feeds();
  ReloadAnswer& answer = *job->answer;
  answer.generation = running_->publication->generation;
  answer.entries = running_->report.entries;
  answer.snapshot_bytes = running_->report.snapshot_bytes;
  if (!job->saved) answer.error = "the states of feeds are not durable: " + job->saved.error();
  finish_reload(*job);
}

// On the loop: to the targets, whose links take it from here, and back to the maker.
void Daemon::publish_reload(const std::shared_ptr<ReloadJob>& job) {
  if (is_stopping()) return;
  ReloadAnswer& answer = *job->answer;
  if (job->next == nullptr) {
    intents_.end_reload(job);
    follow_feeds();
    return finish_reload(*job);
  }
  if (job->is_same) return end_same(job);
  progress_.begin("publish");
  const Clock::time_point publishing = Clock::now();
  job->next->published_at = unix_now();
  set_targets(job->targets);
  publish(job->next);
  tell_published(answer.cause, by_whom(job->cause.wish.uid, job->cause.wish.pid, ms_between(job->begin, Clock::now())));
  if (job->cause.promoted && job->cause.promoted == shadow_.latest()) {
    shadow_.end(fmt::format("promoted, in generation {}", running_->publication->generation.number), {});
  }
  compact_when_due();
  const bool places_stay = job->cause.back && job->cause.back->keeps_targets && !intents_.is_first();
  if (!places_stay) {
    capture_.configure(job->capture, job->targets);
    metrics_ = job->metrics;
    reservoir_.set(job->plan);
    traffic_wanted_ = job->plan.samples != 0;
    if (options_.policy_taken) options_.policy_taken();
  }
  answer.generation = running_->publication->generation;
  capture_.published(answer.generation);
  await_confirmation(*job);
  const bool are_added_back = job->cause.back && job->cause.back->added_up_to != 0;
  if (are_added_back && options_.went_back) options_.went_back();
  job->published = Clock::now();
  answer.phases.push_back({"publish", ms_between(publishing, job->published)});
  maker_thread_.submit([this, job] {
    maker_.record(*job);
    mailbox_.post([this, job] { await_targets(job); });
  });
}

void Daemon::await_targets(const std::shared_ptr<ReloadJob>& job) {
  if (is_stopping()) return;
  intents_.end_reload(job);
  follow_feeds();
  disk_error_ = job->saved ? "" : job->saved.error();
  if (!job->saved) {
    job->answer->error = "enforced, not durable: " + disk_error_;
    keep_again();
  }
  const auto finish = [this, job] {
    if (!intents_.is_first()) acknowledge(*job);
    finish_reload(*job);
  };
  if (intents_.is_first()) return finish();
  // A target that is away gets the newest when it returns. Only a caller waits for it; the next feed does not.
  const auto is_settled = [this, generation = job->answer->generation, is_asked = !job->cause.asking.empty()] {
    return std::all_of(targets_.begin(), targets_.end(), [&](const auto& target) {
      return target->is_settled(generation) || (!is_asked && !target->state().connected);
    });
  };
  progress_.begin("acknowledge");
  intents_.begin_next();  // nobody else waits for that
  waits_.add(is_settled, job->published + std::chrono::milliseconds(options_.acknowledge_ms), finish);
}

// The disk failed: until it does not, what runs would not outlive a restart.
void Daemon::keep_again() {
  again_ = loop_.timer(Clock::now() + kKeepAgain, [this] {
    maker_thread_.submit([this, targets = specs(), running = running_] {
      const Result<void> saved = maker_.keep_again(*running, targets);
      mailbox_.post([this, saved, generation = running->publication->generation] {
        if (is_stopping() || running_->publication->generation != generation) return;  // the newer one says how it is
        if (!saved) return keep_again();
        log::info("a generation is on disk now", {{"generation", generation.number}});
        disk_error_.clear();
      });
    });
  });
}

void Daemon::acknowledge(ReloadJob& job) {
  ReloadAnswer& answer = *job.answer;
  Clock::time_point last = job.published;
  answer.targets = outcomes(answer.generation, last);
  const auto missing = std::count_if(answer.targets.begin(), answer.targets.end(),
                                     [](const TargetOutcome& target) { return !target.acknowledged; });
  answer.phases.push_back({"acknowledge", ms_between(job.published, last)});
  if (missing != 0 && answer.error.empty()) {
    answer.error = fmt::format("{} of {} targets did not acknowledge", missing, targets_.size());
  }
}

void Daemon::count(const ReloadJob& job) {
  using metrics::Outcome;
  const ReloadAnswer& answer = *job.answer;
  const bool is_by_feeds = job.cause.policy_text != nullptr;
  const metrics::Cause cause = intents_.is_first() ? metrics::Cause::start
                               : job.cause.back    ? metrics::Cause::rollback
                               : is_by_feeds       ? metrics::Cause::feeds
                                                   : metrics::Cause::asked;
  const Outcome outcome = job.next == nullptr ? Outcome::failed
                          : !answer.ok        ? Outcome::incomplete
                          : job.is_same       ? Outcome::unchanged
                                              : Outcome::published;
  constexpr double kMilli = 1e-3;
  tally_.add_reload(cause, outcome, answer.total_ms * kMilli);
  for (const PhaseTime& phase : answer.phases) tally_.add_phase(phase.name, phase.milliseconds * kMilli);
  if (running_ != nullptr) tally_.take_refused(refused_feeds(*running_->book));
}

void Daemon::finish_reload(ReloadJob& job) {
  const std::shared_ptr<ReloadAnswer>& answer = job.answer;
  answer->total_ms = ms_between(job.begin, Clock::now());
  answer->ok = answer->diagnostics.ok() && answer->error.empty();
  // Feeds may cause a reload each second, with the same warnings each time.
  const bool is_by_feeds = job.cause.policy_text != nullptr;
  const std::string told = format(answer->diagnostics);
  if (!is_by_feeds || told != last_told_) log::tell(answer->diagnostics, is_by_feeds);
  last_told_ = told;
  if (job.is_same) {
    log::info("the feeds hold what they held", {{"generation", answer->generation.number}, {"cause", answer->cause}});
  } else if (job.next != nullptr) {
    const auto acknowledged = std::count_if(answer->targets.begin(), answer->targets.end(),
                                            [](const TargetOutcome& target) { return target.acknowledged; });
    log::info("reload ends", {{"generation", answer->generation.number},
                              {"changed_lists", answer->changes.size()},
                              {"acknowledged", fmt::format("{}/{}", acknowledged, answer->targets.size())},
                              {"took", log::milliseconds(answer->total_ms)}});
  } else if (running_ != nullptr) {
    answer->generation = running_->publication->generation;
  }
  if (!answer->ok) {
    const std::string policy_errors = fmt::format("errors in the policy: {}", answer->diagnostics.errors());
    log::error(job.next == nullptr ? "reload fails: what runs stays" : "reload ends with an error",
               {{"generation", answer->generation.number},
                {"error", answer->error.empty() ? policy_errors : answer->error},
                {"cause", answer->cause}});
  }
  count(job);
  if (job.serial > told_reload_) {  // a later one may have ended first
    told_reload_ = job.serial;
    last_reload_ = answer;
  }
  if (intents_.unconfirmed() && job.cause.back && job.next == nullptr) end_confirmation_in(kGoBackAgain);
  if (!intents_.is_reloading()) progress_.begin("");
  intents_.answer(job);
}

Result<void> Daemon::fetch_feed(const std::string& list, Fetcher::Done done) {
  const auto found = std::find_if(running_->fetched.begin(), running_->fetched.end(),
                                  [&](const FetchedFeed& one) { return one.list == list; });
  if (found == running_->fetched.end()) return Error{fmt::format("no list with an url is called '{}'", list)};
  return fetcher_.ask_now(found->path, std::move(done));
}

// Watches the files of the policy that runs.
void Daemon::watch_feeds() {
  if (watch_ == nullptr || running_ == nullptr || running_->policy_text == nullptr) return;
  std::vector<WatchedFile> files;
  for (const List& list : *running_->book) {
    std::vector<std::string> names;
    for (const FeedFile& feed : list.feeds()) {
      names.push_back(feed.feed.path);
      if (feed.refusal) {
        files.push_back({feed.refusal->path, std::nullopt});
      } else {
        files.push_back({feed.feed.path, feed.state.file});
      }
    }
    if (stands_for_several(list.feed.path)) files.push_back({list.feed.path, identity_of(names), true});
  }
  watch_->watch(std::move(files));
}

// Watches the files, and asks the servers, of the policy that runs.
void Daemon::follow_feeds() {
  watch_feeds();
  if (running_ != nullptr && running_->policy != nullptr) fetcher_.set(running_->policy->fetch, running_->fetched);
}

void Daemon::promote_shadow(const Wish& wish, Reloaded done) {
  if (!shadow_.is_on()) {
    return done(intents_.refused("there is no shadow to promote\nhint: `controlctl shadow FILE` begins one"));
  }
  intents_.promote(shadow_.latest(), wish, std::move(done));
}

}  // namespace weir::control
