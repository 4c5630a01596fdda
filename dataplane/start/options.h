#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/options/option.h"

// The command line: dataplane [EAL options] -- [program options].
namespace weir::dataplane {

struct Options {
  std::string config_path;  // empty: every default
  std::string socket_path;  // empty: as configured
  std::string state_dir;    // empty: as configured
  bool wait_for_snapshot = false;
  bool check = false;
  bool doctor = false;
  bool json = false;                   // of doctor
  std::string now;                     // as it was written
  std::optional<uint64_t> now_unix_s;  // empty: the system's clock
};

// What stands behind `--`: it fills `options`, which must outlive it.
weir::Options rows_of(Options& options);

struct CommandLine {
  std::vector<std::string> eal;  // without the program's name
  Options options;
  std::optional<int> exit_code;  // --help, --version or an error: it has been said, exit with this
};

// arguments: argv without the program's name. Without `--`, the arguments are the program's when one of them is an
// option of the program, else EAL's.
CommandLine parse_command_line(std::span<const std::string> arguments);

}  // namespace weir::dataplane
