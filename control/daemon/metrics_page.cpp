#include "control/daemon/metrics_page.h"

#include <utility>

#include "common/clock.h"
#include "control/daemon/daemon.h"
#include "control/daemon/tell.h"
#include "control/tell/answer/stats.h"

namespace weir::control {

namespace {

// A target that hangs holds nobody for longer; Prometheus waits 10 s by default.
constexpr std::chrono::milliseconds kTargetsWait{1000};

double seconds_since_1970() {
  return std::chrono::duration<double>(wall_now().time_since_epoch()).count();
}

metrics::Facts facts_of(Daemon& daemon, const Daemon::Refreshed& all, double started_at) {
  metrics::Facts facts;
  facts.now = seconds_since_1970();
  facts.started_at = started_at;
  facts.status = status_answer(daemon);
  facts.tally = daemon.tally();
  facts.traffic_taken = daemon.reservoir().counts().taken;
  facts.traffic_lost = daemon.reservoir().counts().lost;
  for (const auto& [target, is_fresh] : all) facts.targets.push_back(measures_of(target->state(), is_fresh));
  if (daemon.running() == nullptr) return facts;
  facts.lists = list_answer(daemon, "");
  facts.feeds = feeds_answer(daemon);
  facts.shapes = shapes_answer(daemon);
  return facts;
}

}  // namespace

MetricsPage::MetricsPage(Loop& loop, Daemon& daemon)
    : loop_(loop), daemon_(daemon), mailbox_(loop), started_at_(seconds_since_1970()) {}

void MetricsPage::answer(const web::Request&, web::Reply reply) {
  next_.push_back(std::move(reply));
  if (!is_asking_ && !due_) begin();
}

void MetricsPage::begin() {
  due_ = loop_.timer(std::max(Clock::now(), not_before_), [this] {
    due_.reset();
    ask();
  });
}

void MetricsPage::ask() {
  is_asking_ = true;
  not_before_ = Clock::now() + kLeast;
  daemon_.refresh(Daemon::Counters::stats_and_telemetry, Clock::now() + kTargetsWait,
                  [this, alive = mailbox_.token(), asking = std::exchange(next_, {})](const Daemon::Refreshed& all) {
                    if (!*alive) return;
                    const std::string text = metrics::metrics_text(facts_of(daemon_, all, started_at_));
                    for (const web::Reply& reply : asking) reply({200, "", text});
                    is_asking_ = false;
                    if (!next_.empty()) begin();
                  });
}

}  // namespace weir::control
