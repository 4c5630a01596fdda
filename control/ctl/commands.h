#pragma once

#include "control/ctl/line/command.h"

// The commands, one row each, in the order of help: a row NAME is kNAME of cmd_NAME.cpp.
#define WEIR_COMMANDS(row)                                                                                        \
  row(Setup) row(Status) row(Add) row(Del) row(Allow) row(List) row(Explain) row(Top) row(Drops) row(Check)       \
      row(Reload) row(Bypass) row(Stats) row(Test) row(Compare) row(Recommend) row(Export) row(Feeds) row(Shapes) \
          row(Capture) row(History) row(Plan) row(Confirm) row(Rollback) row(Shadow) row(Rebuild) row(Fleet)      \
              row(Flush) row(Restore) row(Crowdsec) row(Flowspec) row(Detach) row(Formats) row(Size) row(Steer)   \
                  row(Help) row(Members) row(Completion) row(Man)

namespace weir::control::ctl {

#define WEIR_DECLARE_COMMAND(name) extern const Command k##name;
WEIR_COMMANDS(WEIR_DECLARE_COMMAND)
#undef WEIR_DECLARE_COMMAND

Commands all_commands();

}  // namespace weir::control::ctl
