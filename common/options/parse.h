#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/options/option.h"

namespace weir {

struct Program {
  const char* name;
  const char* description;
  const char* version;
};

// Fills what the rows point to. The exit code when the program is to end here: 0 after --help or --version, 2 after a
// wrong command line, which was said. arguments: without the program's name. help: what --help prints; empty: the rows.
// refused: is told what is wrong with a command line, too.
std::optional<int> parse_options(const Program& program, std::span<const Options* const> options,
                                 std::vector<std::string> arguments, const std::function<std::string()>& help = {},
                                 const std::function<void(const std::string&)>& refused = {});

}  // namespace weir
