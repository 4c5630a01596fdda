#include <fmt/format.h>

#include "common/manual/completion.h"

// For _arguments and _describe: zshcompsys(1).
namespace weir::manual {

namespace {

// In front of a character that would end what it stands in.
std::string with_backslash(const std::string& text, const char* characters) {
  std::string all;
  for (const char c : text) {
    if (std::string(characters).find(c) != std::string::npos) all += '\\';
    all += c;
  }
  return all;
}

std::string action_of(const Option& option) {
  if (const std::string words = words_for(option); !words.empty()) return "(" + words + ")";
  switch (option.completes) {
    case Option::Completes::files:
      return "_files";
    case Option::Completes::interfaces:
      return "_net_interfaces";
    case Option::Completes::nothing:
      break;
  }
  return " ";  // shows what is wanted
}

std::string spec_of_argument(const Option& option) {
  const bool several = std::holds_alternative<std::vector<std::string>*>(option.target);
  const char* begin = several ? "*:" : option.is_required && !option.is_argument_too ? ":" : "::";
  return in_apostrophes(begin + with_backslash(option.help, ":") + ":" + action_of(option));
}

std::string spec_of_option(const Option& option) {
  const bool several = std::holds_alternative<std::vector<std::string>*>(option.target);
  std::string spec = (several ? "*" : "") + option.name + (option.is_flag() ? "" : "=");
  spec += "[" + with_backslash(option.help, "[]\\") + "]";
  if (!option.is_flag()) spec += ":" + with_backslash(option.value_name, ":") + ":" + action_of(option);
  return in_apostrophes(spec);
}

void add_specs(std::string& text, const Options& options, const char* indent) {
  for (const Option& option : options.all()) {
    if (!option.is_argument()) text += fmt::format(" \\\n{}{}", indent, spec_of_option(option));
    if (option.is_argument() || option.is_argument_too) {
      text += fmt::format(" \\\n{}{}", indent, spec_of_argument(option));
    }
  }
}

constexpr const char* kHelp = "'(- *)'{-h,--help}'[say what there is]'";
constexpr const char* kVersion = "'(- *)--version[say which version it is]'";

}  // namespace

std::string zsh_completion(const Completed& program) {
  const std::string other = program.other_name.empty() ? "" : " " + program.other_name;
  std::string text = fmt::format(
      "#compdef {0}{1}\n# zsh completion of {0}\n_{0}() {{\n"
      "  local curcontext=$curcontext state line\n  typeset -A opt_args\n",
      program.name, other);
  text += fmt::format("  _arguments -C \\\n    {} \\\n    {}", kHelp, kVersion);
  add_specs(text, *program.options, "    ");
  if (program.commands.empty()) {
    if (program.has_others_first) text += " \\\n    '*: :(--)'";
    text += "\n";
  } else {
    text += " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n";
    text += "  case $state in\n    command)\n      local -a commands=(\n";
    for (const Subcommand& command : program.commands) {
      text += fmt::format("        {}\n", in_apostrophes(with_backslash(command.name, ":") + ":" + command.help));
    }
    text += "      )\n      _describe command commands ;;\n    argument)\n      case $words[1] in\n";
    for (const Subcommand& command : program.commands) {
      text += fmt::format("        {})\n          _arguments \\\n            {}", command.name, kHelp);
      add_specs(text, *command.options, "            ");
      add_specs(text, *program.options, "            ");
      text += " ;;\n";
    }
    text += "      esac ;;\n  esac\n";
  }
  // Called by name when zsh found the file; sourced, it only says what it completes.
  return text +
         fmt::format("}}\nif [[ $funcstack[1] == _{0} ]]; then\n  _{0} \"$@\"\nelse\n  compdef _{0} {0}{1}\nfi\n",
                     program.name, other);
}

}  // namespace weir::manual
