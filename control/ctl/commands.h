#pragma once

#include "control/ctl/line/command.h"

// The commands, one row each, in the order of help: a row NAME is kNAME of cmd_NAME.cpp.
#define WEIR_COMMANDS(row)                                                                                          \
  row(Status) row(Stats) row(Top) row(Explain) row(Test) row(List) row(Lists) row(Recommend) row(Export) row(Feeds) \
      row(Shapes) row(Capture) row(Drops) row(History) row(Plan) row(Reload) row(Confirm) row(Rollback) row(Shadow) \
          row(Rebuild) row(Fleet) row(Add) row(Del) row(Flush) row(Restore) row(Crowdsec) row(Flowspec) row(Bypass) \
              row(Detach) row(Check) row(Formats) row(Size) row(Steer) row(Help) row(Members) row(Completion) row(Man)

namespace weir::control::ctl {

#define WEIR_DECLARE_COMMAND(name) extern const Command k##name;
WEIR_COMMANDS(WEIR_DECLARE_COMMAND)
#undef WEIR_DECLARE_COMMAND

Commands all_commands();

}  // namespace weir::control::ctl
