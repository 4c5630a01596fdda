#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/print.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_rebuild {

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"rebuild"}, print_reload); };
}

}  // namespace cmd_rebuild

const Command kRebuild = {
    "rebuild",
    Group::change,
    "build the snapshot of the same lists anew, with another secret, and publish it",
    "Ends an attack on the filter by somebody who knows its secret: `status` tells when more false positives "
    "come than are predicted. Feeds that have changed are read; the policy file is not. Exit code as of "
    "reload.",
    cmd_rebuild::configure,
    [](MemberTable& table) { table.add<ReloadAnswer>("rebuild"); }};

}  // namespace weir::control::ctl
