#pragma once

#include <string>
#include <string_view>

#include "control/ctl/line/command.h"

// Pages that are made of the table of commands.
namespace weir::control::ctl {

std::string help_of_all(Commands commands);
std::string help_of(const Command& command);
std::string command_names(Commands commands);  // reload, status, ...
// What to say when there is no such command: the one that was probably meant, and all there are.
std::string unknown_command(Commands commands, std::string_view name);

std::string man_page(Commands commands);  // roff, section 1

// shell: bash, zsh or fish.
std::string completion_for(const std::string& shell, Commands commands);

}  // namespace weir::control::ctl
