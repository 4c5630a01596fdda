#pragma once

#include <sys/types.h>

namespace weir::log {

enum class Where { terminal, journal, elsewhere };

struct Surroundings {
  bool is_terminal = false;
  bool is_file = false;  // or a device: nobody reads levels there
  dev_t device = 0;      // of stderr
  ino_t inode = 0;
  const char* journal_stream = nullptr;  // systemd.exec(5): DEVICE:INODE of what leads to the journal
  const char* exec_pid = nullptr;        // the process that systemd started: not one that inherits its environment
  pid_t pid = 0;
};

Where where_of(const Surroundings& now);

}  // namespace weir::log
