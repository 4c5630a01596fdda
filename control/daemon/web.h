#pragma once

#include <memory>
#include <optional>
#include <string>

#include "control/base/loop/loop.h"
#include "control/daemon/front_page.h"
#include "control/daemon/metrics_page.h"
#include "control/policy/model/listen.h"
#include "control/tell/web/server.h"

namespace weir::control {

class Daemon;

// What controld tells by HTTP, to look at: the rows of kWebPages in web.cpp. Where, the policy says, or a command line
// that comes before it; a place that cannot be had is warned of and tried again, and nothing else waits for it.
class Web {
 public:
  struct Pages {
    FrontPage front;
    MetricsPage metrics;
  };

  // named: instead of the policy's. The daemon outlives it.
  Web(Loop& loop, Daemon& daemon, std::optional<MetricsSettings> named);
  Web(const Web&) = delete;

  // The policy may name another place now.
  void follow();

 private:
  Result<void> move_to(const ListenAddress& address);
  void note(const std::string& error);

  Loop& loop_;
  Daemon& daemon_;
  const std::optional<MetricsSettings> named_;
  Pages pages_;
  std::optional<ListenAddress> served_;  // as it was asked for
  std::unique_ptr<web::Server> server_;
  std::string last_error_;
  Loop::Source again_;
};

}  // namespace weir::control
