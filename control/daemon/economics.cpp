#include "control/daemon/economics.h"

#include <algorithm>
#include <utility>

#include "common/clock.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"
#include "control/daemon/tell.h"
#include "control/tell/answer/advice.h"
#include "control/tell/answer/economics.h"
#include "control/tell/answer/request.h"

namespace weir::control {

namespace {

// A target that does not answer counts with what it told last.
constexpr std::chrono::milliseconds kCountersWait{1000};

// On the builder.
Result<std::shared_ptr<const Daemon::Compared>> compare(const Running& running, const filter::SnapshotView& base) {
  const Clock::time_point begin = Clock::now();
  auto compared = std::make_shared<Daemon::Compared>();
  compared->generation = running.publication->generation;
  compared->at = unix_now();
  compared->until = first_end_after(*running.book, compared->at);
  compared->overlap = overlap_of(*running.book, compared->at);
  compared->took_ms = ms_since(begin);
  compared->costs = costs_of(base);
  return std::shared_ptr<const Daemon::Compared>(std::move(compared));
}

void count_hits(const SeenTraffic& traffic, const Enforcing& enforcing, Daemon::Comparison& comparison) {
  HitCounter counter(*comparison.of->book, enforcing, unix_now());
  std::vector<weir_packet> layers;
  for (const SeenFrame& frame : traffic.frames) {
    if (frame.kind != wire::FrameKind::packets) continue;
    layers.assign(1, frame.outer);
    layers.insert(layers.end(), frame.inner.begin(), frame.inner.end());
    counter.add(layers);
  }
  comparison.hits = counter.hits();
  comparison.samples = counter.samples();
}

// known: the lists of this generation, when they are compared already.
Result<Daemon::Comparison> compare(std::shared_ptr<const Running> running,
                                   std::shared_ptr<const Daemon::Compared> known, const SeenTraffic& traffic) {
  const Result<const filter::SnapshotView*> base = running->stands_on->snapshot->view();
  if (!base) return Error{base.error()};
  const bool has_overlay = running->publication->base != nullptr;
  const Result<const filter::SnapshotView*> overlay = has_overlay ? running->snapshot->view() : nullptr;
  if (!overlay) return Error{overlay.error()};
  Result<Daemon::Comparison> comparison = Daemon::Comparison{std::move(running), std::move(known), {}, 0};
  const Result<void> had_memory = with_memory([&] {
    if (comparison->lists == nullptr) {
      const auto compared = compare(*comparison->of, **base);
      if (!compared) return void(comparison = Error{compared.error()});
      comparison->lists = *compared;
    }
    count_hits(traffic, {**base, *overlay}, *comparison);
  });
  if (!had_memory) return Error{had_memory.error()};
  return comparison;
}

}  // namespace

void Daemon::compare_lists(Comparing done) {
  const std::shared_ptr<const Running> running = running_;
  if (running->book->size() != running->lists.size()) {
    return done(Error{"the entries of the lists are not known until the policy is read: controlctl reload"});
  }
  comparing_.push_back(std::move(done));
  if (comparing_.size() > 1) return;
  const bool is_known = compared_ != nullptr && compared_->generation == running->publication->generation &&
                        unix_now() < compared_->until;
  builder_.submit([this, running, known = is_known ? compared_ : nullptr, traffic = recent_traffic()] {
    const auto comparison = std::make_shared<Result<Comparison>>(compare(running, known, *traffic));
    mailbox_.post([this, comparison] {
      if (*comparison) compared_ = (*comparison)->lists;
      for (const Comparing& one : std::exchange(comparing_, {})) one(*comparison);
    });
  });
}

namespace {

// refreshed: what targets told just now, or told last.
ListsAnswer lists_answer(Daemon& daemon, const Daemon::Comparison& comparison, const std::vector<HistoryRow>& past,
                         const Daemon::Refreshed& refreshed) {
  const StatsAnswer stats = stats_answer(daemon, refreshed);
  const Daemon::Compared& compared = *comparison.lists;
  ListsAnswer answer = lists_of(*comparison.of->book, compared.overlap, compared.costs, stats.lists);
  answer.generation = compared.generation;
  answer.at = static_cast<int64_t>(compared.at);
  answer.took_ms = compared.took_ms;
  answer.packets = stats.totals.packets;
  for (const TargetStats& target : stats.targets) {
    answer.counted_since = std::max(answer.counted_since, static_cast<int64_t>(target.start_time));
  }
  answer.history_since = past.empty() ? 0 : past.back().at;
  const auto now = unix_now();
  for (ListEconomics& list : answer.lists) list.churn = churn_of(list.name, past, answer.history_since, now);
  answer.samples = comparison.samples;
  for (size_t l = 0; l < answer.lists.size() && comparison.samples != 0; l++) {
    ListHits hits = comparison.hits[l];
    hits.never = answer.lists[l].entries - std::min(answer.lists[l].entries, hits.entries);
    answer.lists[l].hits = hits;
  }
  answer.verdicts = verdicts_of(answer);
  return answer;
}

// The answer, and the generation that it is about.
using Listed = std::function<void(const Result<ListsAnswer>& answer, const std::shared_ptr<const Running>& of)>;

void with_lists(Daemon& daemon, Listed take) {
  daemon.compare_lists([&daemon, take = std::move(take)](const Result<Daemon::Comparison>& made) {
    if (!made) return take(Error{made.error()}, nullptr);
    daemon.history(Generations::kMost, [&daemon, take, comparison = *made](const auto& past) {
      if (!past) return take(Error{past.error()}, nullptr);
      daemon.refresh(Daemon::Counters::stats, Clock::now() + kCountersWait,
                     [&daemon, take, comparison, past = *past](const Daemon::Refreshed& refreshed) {
                       take(lists_answer(daemon, comparison, past, refreshed), comparison.of);
                     });
    });
  });
}

}  // namespace

void answer_lists(Daemon& daemon, const Request&, const Caller&, ApiServer::Reply reply) {
  with_lists(daemon, [reply = std::move(reply)](const Result<ListsAnswer>& answer, const auto&) {
    reply(answer ? answer_line(*answer) : failure_line(answer.error()));
  });
}

void answer_recommend(Daemon& daemon, const Request&, const Caller&, ApiServer::Reply reply) {
  with_lists(daemon, [&daemon, reply = std::move(reply)](const Result<ListsAnswer>& answer, const auto& running) {
    if (!answer) return reply(failure_line(answer.error()));
    const FeedsAnswer feeds = feeds_answer(daemon);
    reply(answer_line(advise({running->policy.get(), *running->book, *answer, feeds.feeds, running->report,
                              running->overlay, running->memory_limit, unix_now()})));
  });
}

}  // namespace weir::control
