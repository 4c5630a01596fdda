#include "control/ctl/commands.h"

namespace weir::control::ctl {

namespace {

#define WEIR_COMMAND_ROW(name) &k##name,
constexpr const Command* kCommands[] = {WEIR_COMMANDS(WEIR_COMMAND_ROW)};
#undef WEIR_COMMAND_ROW

}  // namespace

Commands all_commands() {
  return kCommands;
}

}  // namespace weir::control::ctl
