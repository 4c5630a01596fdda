#pragma once

#include <string>
#include <vector>

#include "common/options/option.h"

// Completions for shells, made of the rows of a program's options: names of commands, options, and what options take.
namespace weir::manual {

struct Subcommand {
  std::string name, help;
  const Options* options;
};

struct Completed {
  std::string name;        // of the program
  const Options* options;  // of the program; those of every command, too
  std::vector<Subcommand> commands = {};
  bool has_others_first = false;  // `--` divides the options of somebody else (EAL) from these
  std::string other_name = {};    // that the program is called by, too
};

std::string bash_completion(const Completed& program);
std::string zsh_completion(const Completed& program);
std::string fish_completion(const Completed& program);

// `shell`: bash, zsh or fish.
std::string completion_for(const std::string& shell, const Completed& program);

// What the value of an option may be, between blanks; empty: anything.
std::string words_for(const Option& option);
// Within apostrophes, for every shell.
std::string in_apostrophes(const std::string& text);

}  // namespace weir::manual
