#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "control/base/loop/loop.h"
#include "control/tell/answer/change.h"
#include "control/tell/page/facts.h"
#include "control/tell/web/server.h"

namespace weir::control {

class Daemon;

// The page for people (control/tell/page/), of the daemon that runs. It looks at the counters of all targets every
// kEvery, so that there are rates and drawings for whoever comes, and more often while somebody watches.
class FrontPage {
 public:
  static constexpr std::chrono::seconds kEvery{5};

  // The daemon outlives it.
  FrontPage(Loop& loop, Daemon& daemon);
  FrontPage(const FrontPage&) = delete;

  void answer(const web::Request& request, web::Reply reply);  // HTML

 private:
  using Done = std::function<void()>;
  void look_now_and_then();
  void look(Done done);
  void read_history(Done done);
  void end_reading();

  Loop& loop_;
  Daemon& daemon_;
  const Mailbox mailbox_;
  page::Looks looks_;
  bool is_looking_ = false;
  std::vector<Done> waiting_;  // for the look that is under way
  Loop::Source next_;
  HistoryAnswer history_;  // of the generation that ran then
  std::string history_error_;
  bool is_reading_ = false;
  std::vector<Done> readers_;  // who waits for the journal
  Loop::Source patience_;      // of these
};

}  // namespace weir::control
