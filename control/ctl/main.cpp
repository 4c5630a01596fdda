// controlctl: one command, one request to controld, one answer. docs/use/control.md.

#include "control/ctl/commands.h"

int main(int argc, char** argv) {
  return weir::control::ctl::run_line(weir::control::ctl::all_commands(), argc, argv);
}
