
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_confirm {

void show(const ConfirmAnswer& answer) {
  print("generation {} stays\n", generation_text(answer.generation));
}

Run configure(Options&) {
  return [](const Context& context) { return request(context, {"confirm"}, show); };
}

}  // namespace cmd_confirm

const Command kConfirm = {
    "confirm", Group::change,          "keep what `reload --confirm` published",
    "",        cmd_confirm::configure, [](MemberTable& table) { table.add<ConfirmAnswer>("confirm"); }};

}  // namespace weir::control::ctl
