#include "common/manual/completion.h"

#include <deque>

#include "common/paths.h"
#include "control/ctl/line/pages.h"

namespace weir::control::ctl {

std::string completion_for(const std::string& shell, Commands commands) {
  const Common common(default_controld_socket());
  manual::Completed program = {"controlctl", &common.options};
  program.other_name = "weir";
  std::deque<Options> options;
  std::deque<Run> keep_the_targets;
  for (const Command* command : commands) {
    keep_the_targets.push_back(command->configure(options.emplace_back()));
    program.commands.push_back({command->name, command->help, &options.back()});
  }
  return manual::completion_for(shell, program);
}

}  // namespace weir::control::ctl
