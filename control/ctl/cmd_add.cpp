#include "control/ctl/change_line.h"
#include "control/ctl/commands.h"

namespace weir::control::ctl {

namespace cmd_add {

Run configure(Options& options) {
  return configure_add(options, "drop", "to this list; left out: to the one dynamic list with `action: drop`");
}

}  // namespace cmd_add

const Command kAdd = {
    "add",
    Group::everyday,
    "block: add entries to a dynamic list; waits until they are enforced, and on disk",
    "All of them are added, or none. One that is there already gets the new time to live and comment. "
    "The list must have `dynamic: true`. An own address and an entry of a pass list pass all the same: the answer says "
    "so. Exit code 3 says that not every target has them yet: it gets them when it returns.",
    cmd_add::configure,
    [](MemberTable& table) { table.add<ChangeAnswer>("add"); },
    false,
    "block ban deny"};

}  // namespace weir::control::ctl
