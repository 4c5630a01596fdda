#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string_view>

#include <CLI/CLI.hpp>

#include "common/paths.h"
#include "control/ctl/line/pages.h"

// The only file that includes CLI11: it takes 15 s to compile.
namespace weir::control::ctl {

namespace {

std::string names_of(const Option& option) {
  return option.is_argument_too ? option.name + "," + option.name.substr(2) : option.name;
}

CLI::Option* add(CLI::App& app, const Option& option) {
  if (const auto* flag = std::get_if<bool*>(&option.target)) return app.add_flag(option.name, **flag, option.help);
  CLI::Option* added = nullptr;
  if (const auto* number = std::get_if<double*>(&option.target)) {
    added = app.add_option(names_of(option), **number, option.help);
    added->check(CLI::Range(option.low, option.high));
  } else {
    added = app.add_option(names_of(option), *std::get<std::string*>(option.target), option.help);
  }
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
  if (option.is_required) added->required();
  return added;
}

void add(CLI::App& app, const Options& options) {
  const std::vector<std::string>& one = options.one_of_names();
  CLI::Option_group* group = one.empty() ? nullptr : app.add_option_group("one of");
  for (const Option& option : options.all()) {
    const bool in_group = std::find(one.begin(), one.end(), option.name) != one.end();
    add(in_group ? *group : app, option);
  }
  if (group != nullptr) group->require_option(1);
}

// The first word that is neither an option nor the value of one; empty: there is none.
std::string_view command_of(int argc, const char* const* argv) {
  for (int i = 1; i < argc; i++) {
    const std::string_view word = argv[i];
    if (word == "--socket") {
      i++;
    } else if (word.empty() || word.front() != '-') {
      return word;
    }
  }
  return {};
}

}  // namespace

int run_line(Commands commands, int argc, const char* const* argv) {
  Common common(default_controld_socket());
  CLI::App app("", "controlctl");
  app.set_version_flag("--version", "controlctl " WEIR_VERSION);
  app.fallthrough();  // --json and --socket may stand behind the command
  add(app, common.options);
  const std::string_view name = command_of(argc, argv);
  const Command* command = find_command(commands, name);
  if (command == nullptr && !name.empty()) {
    fmt::print(stderr, "controlctl: {}", unknown_command(commands, name));
    return kUsage;
  }
  Run run;
  if (command != nullptr) {
    CLI::App* sub = app.add_subcommand(command->name);
    Options options;
    run = command->configure(options);
    add(*sub, options);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", command != nullptr ? help_of(*command) : help_of_all(commands));
    return kOk;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  if (command == nullptr) {
    fmt::print(stderr, "controlctl: a command is missing\n\n{}", help_of_all(commands));
    return kUsage;
  }
  return run(common.context);
}

}  // namespace weir::control::ctl
