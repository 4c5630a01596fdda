#include "control/ctl/line/out.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace weir::control::ctl {

namespace {

bool is_wide = false;

}  // namespace

size_t columns_to_print() {
  winsize size = {};
  if (is_wide || isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

void print_wide() {
  is_wide = true;
}

}  // namespace weir::control::ctl
