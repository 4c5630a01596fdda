#include "control/daemon/economics.h"

#include <algorithm>
#include <utility>

#include "control/answer/advice.h"
#include "control/answer/economics.h"
#include "control/answer/request.h"
#include "control/daemon/daemon.h"
#include "control/daemon/tell.h"

namespace weir::control {

namespace {

// A target that does not answer counts with what it told last.
constexpr std::chrono::milliseconds kCountersWait{1000};

// On the builder.
Result<std::shared_ptr<const Daemon::Compared>> compare(const Running& running) {
  const Clock::time_point begin = Clock::now();
  auto compared = std::make_shared<Daemon::Compared>();
  compared->generation = running.publication->generation;
  compared->book = running.book;
  compared->at = unix_now();
  compared->until = first_end_after(*running.book, compared->at);
  const Result<const filter::SnapshotView*> base = running.stands_on->snapshot->view();
  if (!base) return Error{base.error()};
  const Result<void> had_memory = with_memory([&] {
    compared->overlap = overlap_of(*running.book, compared->at);
    compared->took_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    compared->costs = costs_of(**base);
  });
  if (!had_memory) return Error{had_memory.error()};
  return std::shared_ptr<const Daemon::Compared>(std::move(compared));
}

std::vector<HistoryRow> rows_of(const std::vector<Daemon::Past>& past) {
  std::vector<HistoryRow> rows;
  for (const Daemon::Past& one : past) {
    rows.push_back({one.record.number, one.record.at, {}, {}, one.is_kept, one.record.changes});
  }
  return rows;
}

}  // namespace

void Daemon::compare_lists(Comparing done) {
  const std::shared_ptr<const Running> running = running_;
  if (running->book->size() != running->lists.size()) {
    return done(Error{"the entries of the lists are not known until the policy is read: controlctl reload"});
  }
  const bool is_known = compared_ != nullptr && compared_->generation == running->publication->generation;
  if (is_known && unix_now() < compared_->until) return done(compared_);
  comparing_.push_back(std::move(done));
  if (comparing_.size() > 1) return;
  builder_.submit([this, running] {
    const auto compared = compare(*running);
    mailbox_.post([this, compared] {
      if (compared) compared_ = *compared;
      for (const Comparing& one : std::exchange(comparing_, {})) one(compared);
    });
  });
}

namespace {

// counted: what targets told just now, or told last.
ListsAnswer lists_answer(Daemon& daemon, const Daemon::Compared& compared, const std::vector<Daemon::Past>& past,
                         const Daemon::Refreshed& refreshed) {
  const std::shared_ptr<const Running> running = daemon.running();
  const StatsAnswer stats = stats_answer(daemon, refreshed);
  ListsAnswer answer = lists_of(*compared.book, compared.overlap, compared.costs, stats.lists);
  answer.generation = compared.generation;
  answer.at = static_cast<int64_t>(compared.at);
  answer.took_ms = compared.took_ms;
  answer.packets = stats.totals.packets;
  for (const TargetStats& target : stats.targets) {
    answer.counted_since = std::max(answer.counted_since, static_cast<int64_t>(target.start_time));
  }
  const std::vector<HistoryRow> rows = rows_of(past);
  answer.history_since = rows.empty() ? 0 : rows.back().at;
  const auto now = static_cast<int64_t>(unix_now());
  for (ListEconomics& list : answer.lists) list.churn = churn_of(list.name, rows, answer.history_since, now);
  answer.verdicts = verdicts_of(answer);
  return answer;
}

// The answer, and the book that it is about.
using Listed = std::function<void(const Result<ListsAnswer>& answer, const std::shared_ptr<const Book>& book)>;

void with_lists(Daemon& daemon, Listed take) {
  daemon.compare_lists([&daemon, take = std::move(take)](const Result<std::shared_ptr<const Daemon::Compared>>& made) {
    if (!made) return take(Error{made.error()}, nullptr);
    daemon.history(Generations::kMost, [&daemon, take, compared = *made](const auto& past) {
      if (!past) return take(Error{past.error()}, nullptr);
      daemon.refresh(Daemon::Counters::stats, Clock::now() + kCountersWait,
                     [&daemon, take, compared, past = *past](const Daemon::Refreshed& refreshed) {
                       take(lists_answer(daemon, *compared, past, refreshed), compared->book);
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
  with_lists(daemon, [&daemon, reply = std::move(reply)](const Result<ListsAnswer>& answer, const auto& book) {
    if (!answer) return reply(failure_line(answer.error()));
    const std::shared_ptr<const Running> running = daemon.running();
    const FeedsAnswer feeds = feeds_answer(daemon);
    reply(answer_line(advise({running->policy.get(), *book, *answer, feeds.feeds, running->report, running->overlay,
                              running->memory_limit, static_cast<int64_t>(unix_now())})));
  });
}

}  // namespace weir::control
