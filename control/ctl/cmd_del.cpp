#include <memory>

#include "control/ctl/change_line.h"
#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/tell/answer/change.h"

namespace weir::control::ctl {

namespace cmd_del {

struct Arguments {
  std::vector<std::string> keys;
  std::string list;
};

int run(const Context& context, const Arguments& arguments) {
  Request wanted{"del"};
  std::optional<std::vector<std::string>> entries = read_keys(arguments.keys);
  if (!entries) return kUsage;
  wanted.entries = std::move(*entries);
  if (!arguments.list.empty()) wanted.name = arguments.list;
  return request(context, wanted, print_change);
}

Run configure(Options& options) {
  auto arguments = std::make_shared<Arguments>();
  options.arguments("KEY...", arguments->keys, kKeysHelp).required();
  options.text("--list", "NAME", arguments->list,
               "from this list; left out: from the one dynamic list with `action: drop`");
  return [arguments](const Context& context) { return run(context, *arguments); };
}

}  // namespace cmd_del

const Command kDel = {"del",
                      Group::everyday,
                      "unblock: delete entries that were added to a dynamic list; waits until no target enforces them",
                      "All of them are deleted, or none. One that is not there is no error, unless the policy file or "
                      "a feed of the list holds it: take it out there, or let a pass list pass it. The answer names "
                      "another list that holds it, too.",
                      cmd_del::configure,
                      [](MemberTable& table) { table.add<ChangeAnswer>("del"); },
                      false,
                      "unblock unban delete remove rm"};

}  // namespace weir::control::ctl
