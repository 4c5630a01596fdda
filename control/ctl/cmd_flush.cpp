#include <memory>

#include "control/ctl/change_line.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_flush {

Run configure(Options& options) {
  auto list = std::make_shared<std::string>();
  options.argument("NAME", *list, "of the list").required();
  return [list](const Context& context) {
    Request wanted{"flush"};
    wanted.name = *list;
    return request(context, wanted, print_change);
  };
}

}  // namespace cmd_flush

const Command kFlush = {"flush",
                        Group::change,
                        "delete every entry that was added to a dynamic list",
                        "What the policy file and the feed hold stays.",
                        cmd_flush::configure,
                        [](MemberTable& table) { table.add<ChangeAnswer>("flush"); }};

}  // namespace weir::control::ctl
