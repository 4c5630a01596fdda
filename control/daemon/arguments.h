#pragma once

#include <string>
#include <vector>

#include "common/options/option.h"
#include "common/paths.h"
#include "control/daemon/daemon.h"

// The command line of controld.
namespace weir::control {

struct Arguments {
  Daemon::Options daemon;
  std::string socket = default_controld_socket();
  std::string state_dir;
  std::vector<std::string> targets;
  std::string read_group, admin_group, seccomp = "refuse";
  std::string metrics;  // empty: the policy's
  bool no_host_guard = false;
  bool verbose = false;
};

extern const std::vector<std::string> kSeccompModes;  // as confine::Seccomp

// What fills `arguments`, which must outlive it.
Options options_of(Arguments& arguments);

}  // namespace weir::control
