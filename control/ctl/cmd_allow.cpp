#include "control/ctl/change_line.h"
#include "control/ctl/commands.h"

namespace weir::control::ctl {

namespace cmd_allow {

Run configure(Options& options) {
  return configure_add(options, "pass", "to this list; left out: to the one dynamic list with `action: pass`");
}

}  // namespace cmd_allow

const Command kAllow = {"allow",
                        Group::everyday,
                        "add entries to a dynamic pass list, which wins over every drop list",
                        "It is `add` to a pass list. `del --list NAME` takes the entry out again.",
                        cmd_allow::configure,
                        nullptr,
                        false,
                        "permit whitelist allowlist"};

}  // namespace weir::control::ctl
