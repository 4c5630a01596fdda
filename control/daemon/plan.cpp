#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/policy/model/edit.h"
#include "control/policy/read/policy.h"

// `plan` compiles a candidate beside what runs, and tells what it would change.
namespace weir::control {

namespace {

// Entries that were added to dynamic lists stay in them.
void keep_added(const Book& before, Book& book) {
  for (List& list : book) {
    const auto was = std::find_if(before.begin(), before.end(), [&](const List& one) { return one.name == list.name; });
    if (!list.dynamic || was == before.end()) continue;
    list.hold(with_journal(list.as_written(), journal_part(*was->as_written())));
  }
}

}  // namespace

void Daemon::plan(Candidate candidate, std::function<void(const PlanAnswer&)> done) {
  if (candidate.path.empty()) candidate.path = running_->policy_path.empty() ? options_.config : running_->policy_path;
  if (!candidate.text && running_->policy_text != nullptr) candidate.text = *running_->policy_text;
  const Callers::Id caller = callers_.add([done] {
    PlanAnswer stopped;
    stopped.error = "controld stops";
    done(stopped);
  });
  planner_.submit([this, candidate = std::move(candidate), caller, done = std::move(done), running = running_,
                   traffic = recent_traffic()] {
    const Clock::time_point begin = Clock::now();
    auto answer = std::make_shared<PlanAnswer>();
    Result<void> made;
    const Result<void> had_memory = with_memory([&] { made = plan(candidate, *running, *traffic, *answer); });
    if (!had_memory) made = Error{had_memory.error()};
    if (!made) answer->error = made.error();
    answer->ok = made && answer->diagnostics.ok() && answer->over_limits.empty();
    answer->total_ms = ms_since(begin);
    malloc_trim(0);
    mailbox_.post([this, answer, caller, done] {
      if (callers_.take(caller)) done(*answer);
    });
  });
}

// The urls of the candidate become files.
Result<void> Daemon::fetch(const Running& running, Candidate& candidate) {
  if (candidate.fetched.empty()) return {};
  if (!options_.fetches) return Error{"this controld fetches nothing"};
  const FetchSettings settings = running.policy != nullptr ? running.policy->fetch : FetchSettings();
  constexpr uint64_t kDay_s = 86400;
  std::vector<FetchedFeed> feeds;
  for (const auto& [list, url] : candidate.fetched) {
    feeds.push_back({list, url, kDay_s, fetched_path(store_.state_dir(), list, url)});
  }
  const std::map<std::string, std::string> errors = fetcher_.fetch_first(settings, feeds);
  mailbox_.post([this] {  // those of the policy, and no others, are asked for again
    if (running_->policy != nullptr) fetcher_.set(running_->policy->fetch, running_->fetched);
  });
  for (const FetchedFeed& feed : feeds) {
    const auto error = errors.find(feed.path);
    if (error != errors.end() && !error->second.empty()) {
      return Error{fmt::format("{} was not fetched: {}", shown_url(feed.url), error->second)};
    }
    candidate.instead[feed.list] = feed.path;
  }
  return {};
}

Result<void> Daemon::plan(Candidate candidate, const Running& running, const SeenTraffic& traffic, PlanAnswer& answer) {
  answer.generation = running.publication->generation;
  answer.before = running.report;
  if (!candidate.text) return Error{"what runs is the last good of a policy that is bad: name a policy file to plan"};
  if (const Result<void> fetched = fetch(running, candidate); !fetched) return fetched;
  FeedHistory history = history_of(running.book.get(), !running.from_last_good);
  history.instead = candidate.instead;
  std::optional<Policy> policy =
      read_policy_text(candidate.path, *candidate.text, answer.diagnostics, unix_now(), history);
  if (!policy) return {};
  for (const auto& [name, file] : candidate.instead) {
    const auto found = std::find_if(policy->lists.begin(), policy->lists.end(),
                                    [&wanted = name](const List& list) { return list.name == wanted; });
    if (found == policy->lists.end()) return Error{fmt::format("no list is called '{}'", name)};
    if (found->feed.path.empty()) return Error{fmt::format("list '{}' has no feed that a file could stand for", name)};
  }
  keep_added(*running.book, policy->lists);
  policy->gates_for = kinds_of(options_.targets.empty() ? policy->targets : options_.targets);
  const auto whole = std::make_shared<const Policy>(std::move(*policy));
  policy.reset();
  const std::shared_ptr<Running> next = running_of(whole);
  answer.refused = refused_feeds(*next->book);
  answer.preview = preview_lists(*running.book, *next->book);
  Result<Compiled> compiled = compile(*whole, {}, options_.build_threads);
  if (!compiled) return Error{compiled.error()};
  auto publication = std::make_shared<Publication>();
  publication->snapshot = std::move(compiled->snapshot);
  publication->size_bytes = compiled->size_bytes;
  publication->digest = compiled->digest;
  const OpenSnapshot snapshot(publication);
  answer.after = compiled->report;
  answer.phases = std::move(compiled->report.phases);
  const Result<const filter::SnapshotView*> view = snapshot.view();
  if (!view) return Error{view.error()};
  const Result<Enforcing> before = enforcing_of(running);
  if (!before) return Error{before.error()};
  if (traffic.frames.empty()) {
    answer.why_no_radius = running.policy != nullptr && running.policy->plan.samples == 0
                               ? "`plan.samples` of the policy is 0: no traffic is kept"
                               : "no traffic was seen of late";
    return {};
  }
  answer.radius = radius_of(*before, Enforcing(**view), traffic.frames, unix_now());
  answer.over_limits = over_limits(whole->plan, *answer.radius);
  return {};
}

}  // namespace weir::control
