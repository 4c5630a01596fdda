#pragma once

#include <functional>
#include <string>

#include "common/result.h"
#include "control/ctl/line/command.h"
#include "control/tell/answer/request.h"

namespace weir::control::ctl {

// How long to wait for an answer, and what happens when it does not come soon.
struct Patience {
  bool is_quiet = false;  // nothing is said while it is waited
  int most_ms = 120'000;  // a reload reads, compiles and then waits for targets; nothing takes minutes
  int soon_ms = 1000;
  // Called once when soon_ms have passed; returns how many more to wait. connection: can be read when there is an
  // answer after all. Empty: it is said on stderr that controld is waited for.
  std::function<int(int connection)> not_soon = {};
};

// Sends one request and waits for its answer. Error: nobody answers on the socket, with the way out. Whoever does not
// wait on has withdrawn the request: a controld that finds nobody there any more does not carry it out.
Result<Document> call_controld(const std::string& socket, const Request& request, const Patience& patience = {});

// It is there, and not ours to use: nobody goes around it.
bool is_forbidden(const std::string& socket);
// Says why, as JSON too if asked. Returns kUnreachable.
int fail(const Context& context, const std::string& error);

}  // namespace weir::control::ctl
