#include <charconv>
#include <cstdio>
#include <memory>

#include "control/ctl/command.h"
#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"

namespace weir::control::ctl {

namespace cmd_rollback {

int run(const Context& context, const std::string& text) {
  Request wanted{"rollback"};
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) {
    print(stderr, "controlctl: `{}` is no number of a generation: `controlctl history` names them\n", text);
    return kUsage;
  }
  wanted.number = number;
  return request(context, wanted, print_reload);
}

Run configure(Options& options) {
  auto number = std::make_shared<std::string>();
  options.argument("NUMBER", *number, "of the generation, as `history` has it").required();
  return [number](const Context& context) { return run(context, *number); };
}

}  // namespace cmd_rollback

const Command kRollback = {"rollback", Group::change, "publish the lists of a former generation again",
                           "They are as they were then: those of its policy and feeds, and what was added and deleted. "
                           "It gets a number of its "
                           "own, so that a rollback can be taken back by another one. Neither the policy nor its feeds "
                           "are read until the next "
                           "`reload`, not even at a start.",
                           cmd_rollback::configure};

}  // namespace weir::control::ctl
