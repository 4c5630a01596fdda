#pragma once

#include <string>
#include <string_view>

#include "control/ctl/line/command.h"

// Pages that are made of the table of commands.
namespace weir::control::ctl {

// program: as Context has it.
std::string help_of_all(Commands commands, const std::string& program);
std::string help_of(const Command& command, const std::string& program);
// Returns the error for an unknown word, with a hint: the commands to use instead, or at most two similar commands.
std::string unknown_command(Commands commands, std::string_view word);

std::string man_page(Commands commands);  // roff, section 1

// shell: bash, zsh or fish.
std::string completion_for(const std::string& shell, Commands commands);

}  // namespace weir::control::ctl
