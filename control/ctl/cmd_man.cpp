#include <cstdio>

#include "control/ctl/commands.h"
#include "control/ctl/line/out.h"
#include "control/ctl/line/pages.h"

namespace weir::control::ctl {

namespace cmd_man {

Run configure(Options&) {
  return [](const Context&) {
    print("{}", man_page(all_commands()));
    return int{kOk};
  };
}

}  // namespace cmd_man

const Command kMan = {"man", Group::own, "print the man page, as roff",
                      "To read it:\n"
                      "    controlctl man | man -l -",
                      cmd_man::configure};

}  // namespace weir::control::ctl
