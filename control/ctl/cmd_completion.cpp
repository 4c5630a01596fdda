#include <cstdio>
#include <memory>

#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/line/pages.h"

namespace weir::control::ctl {

namespace cmd_completion {

int run(const std::string& shell) {
  print("{}", completion_for(shell, all_commands()));
  return kOk;
}

Run configure(Options& options) {
  auto shell = std::make_shared<std::string>();
  options.argument("SHELL", *shell, "for which shell").required().one_of({"bash", "zsh", "fish"});
  return [shell](const Context&) { return run(*shell); };
}

}  // namespace cmd_completion

const Command kCompletion = {"completion", Group::own, "print the completion for a shell",
                             "To use it at once:\n"
                             "    source <(controlctl completion bash)\n"
                             "    source <(controlctl completion zsh)\n"
                             "    controlctl completion fish | source\n"
                             "`meson install` installs them, and those of the other programs.",
                             cmd_completion::configure};

}  // namespace weir::control::ctl
