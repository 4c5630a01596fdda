#pragma once

#include <vector>

#include "control/base/loop/loop.h"
#include "control/tell/metrics/facts.h"
#include "control/tell/web/server.h"

namespace weir::control {

class Daemon;

// /metrics, of the daemon that runs. Targets are asked anew for each answer; who comes while they are asked shares it,
// and no answer is begun sooner than kLeast after the one before, so that nobody keeps the loop busy by asking.
class MetricsPage {
 public:
  static constexpr std::chrono::milliseconds kLeast{100};

  // The daemon outlives it.
  MetricsPage(Loop& loop, Daemon& daemon);
  MetricsPage(const MetricsPage&) = delete;

  void answer(const web::Request& request, web::Reply reply);

 private:
  void begin();
  void ask();

  Loop& loop_;
  Daemon& daemon_;
  const Mailbox mailbox_;
  const double started_at_;
  std::vector<web::Reply> next_;  // for the answer that is begun next
  bool is_asking_ = false;
  Clock::time_point not_before_ = {};
  Loop::Source due_;
};

}  // namespace weir::control
