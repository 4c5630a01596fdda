#include <cstdio>
#include <memory>

#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/line/pages.h"

namespace weir::control::ctl {

namespace cmd_help {

struct Asked {
  std::string command;
};

int run(const Context& context, const Asked& asked) {
  if (asked.command.empty()) {
    print("{}", help_of_all(all_commands(), context.program));
    return kOk;
  }
  const Command* command = find_command(all_commands(), asked.command);
  if (command == nullptr) {
    print(stderr, "controlctl: {}", unknown_command(all_commands(), asked.command));
    return kUsage;
  }
  print("{}", help_of(*command, context.program));
  return kOk;
}

Run configure(Options& options) {
  auto asked = std::make_shared<Asked>();
  Option& command = options.argument("COMMAND", asked->command, "which one; default: all of them, a line each");
  for (const Command* known : all_commands()) command.suggested.emplace_back(known->name);
  return [asked](const Context& context) { return run(context, *asked); };
}

}  // namespace cmd_help

const Command kHelp = {"help", Group::own, "what the commands do, or one of them and its options", "",
                       cmd_help::configure};

}  // namespace weir::control::ctl
