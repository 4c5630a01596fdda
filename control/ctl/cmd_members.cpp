#include <cstdio>
#include <memory>

#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/line/pages.h"
#include "control/tell/answer/request.h"

namespace weir::control::ctl {

namespace cmd_members {

int run(const std::string& name) {
  const Command* only = name.empty() ? nullptr : find_command(all_commands(), name);
  if (only == nullptr && !name.empty()) {
    print(stderr, "controlctl: {}", unknown_command(all_commands(), name));
    return kUsage;
  }
  MemberTable table;
  if (only == nullptr) table.add<Head>("every answer");
  for (const Command* command : all_commands()) {
    if (command->answers != nullptr && (only == nullptr || only == command)) command->answers(table);
  }
  print("{}", markdown(table.objects()));
  return kOk;
}

Run configure(Options& options) {
  auto name = std::make_shared<std::string>();
  Option& command = options.argument("COMMAND", *name, "only of this command");
  for (const Command* known : all_commands()) {
    if (known->answers != nullptr) command.suggested.emplace_back(known->name);
  }
  return [name](const Context&) { return run(*name); };
}

}  // namespace cmd_members

const Command kMembers = {
    "members", Group::own, "every member of what --json prints: type, unit and meaning",
    "A table of Markdown. The first column names the command in bold; or the object that is found in an answer.",
    cmd_members::configure};

}  // namespace weir::control::ctl
