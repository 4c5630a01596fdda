#include <fmt/format.h>

#include "common/paths.h"
#include "control/ctl/line/pages.h"

// Completions for shells, made of the table: names of commands, their options, and what options take.
namespace weir::control::ctl {

namespace {

// Within apostrophes, for every shell.
std::string quoted(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? "'\\''" : std::string(1, c);
  return all + "'";
}

std::string names_between_blanks(Commands commands) {
  std::string text;
  for (const Command* command : commands) text += (text.empty() ? "" : " ") + std::string(command->name);
  return text;
}

// What its value may be, between blanks.
std::string words_for(const Option& option) {
  return fmt::format("{}", fmt::join(option.choices.empty() ? option.suggested : option.choices, " "));
}

// What may stand for the value of an option, in bash.
std::string values_in_bash(const Option& option) {
  if (const std::string words = words_for(option); !words.empty()) {
    return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))", words);
  }
  switch (option.completes) {
    case Option::Completes::files:
      return "COMPREPLY=($(compgen -f -- \"$word\"))";
    case Option::Completes::interfaces:
      return "COMPREPLY=($(compgen -W \"$(ls /sys/class/net)\" -- \"$word\"))";
    case Option::Completes::nothing:
      break;
  }
  return "COMPREPLY=()";
}

void add_values(std::string& text, const Options& options, const char* indent) {
  for (const Option& option : options.all()) {
    if (option.is_argument() || option.is_flag()) continue;
    text += fmt::format("{}{}) {}; return ;;\n", indent, option.name, values_in_bash(option));
  }
}

std::string words_of(const Options& options, const Options& common) {
  std::string words;
  for (const Options* some : {&options, &common}) {
    for (const Option& option : some->all()) {
      if (!option.is_argument()) words += (words.empty() ? "" : " ") + option.name;
    }
  }
  return words + " --help";
}

}  // namespace

std::string bash_completion(Commands commands) {
  const Common common(default_controld_socket());
  std::string text =
      "# bash completion of controlctl, made by `controlctl completion bash`\n"
      "_controlctl() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case ${COMP_WORDS[i]} in\n"
      "      --socket) ((i++)) ;;\n"
      "      -*) ;;\n"
      "      *) command=${COMP_WORDS[i]}; break ;;\n"
      "    esac\n"
      "  done\n"
      "  case $before in\n";
  add_values(text, common.options, "    ");
  text += "  esac\n  case $command in\n";
  text += fmt::format("    '') COMPREPLY=($(compgen -W '{} --socket --json --help --version' -- \"$word\")) ;;\n",
                      names_between_blanks(commands));
  for (const Command* command : commands) {
    Options options;
    const Run keeps_the_targets = command->configure(options);
    text += fmt::format("    {})\n      case $before in\n", command->name);
    add_values(text, options, "        ");
    text += "      esac\n";
    text += fmt::format("      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}' -- \"$word\")); return; fi\n",
                        words_of(options, common.options));
    for (const Option& option : options.all()) {
      if (option.is_argument() || option.is_argument_too) text += fmt::format("      {}\n", values_in_bash(option));
    }
    text += "      ;;\n";
  }
  return text + "  esac\n}\ncomplete -o bashdefault -F _controlctl controlctl\n";
}

std::string zsh_completion(Commands commands) {
  const Common common(default_controld_socket());
  std::string text =
      "#compdef controlctl\n"
      "# zsh completion of controlctl, made by `controlctl completion zsh`\n"
      "_controlctl() {\n"
      "  local -a commands words_of\n"
      "  local command=${words[(r)(" +
      [&] {
        std::string names = names_between_blanks(commands);
        for (char& c : names) c = c == ' ' ? '|' : c;
        return names;
      }() +
      ")]}\n  commands=(\n";
  for (const Command* command : commands) {
    text += fmt::format("    {}\n", quoted(fmt::format("{}:{}", command->name, command->help)));
  }
  text +=
      "  )\n  case $command in\n    '') _describe command commands; compadd -- --socket --json --help --version ;;\n";
  for (const Command* command : commands) {
    Options options;
    const Run keeps_the_targets = command->configure(options);
    text += fmt::format("    {}) compadd -- {}", command->name, words_of(options, common.options));
    for (const Option& option : options.all()) {
      if (option.is_argument() || option.is_argument_too) text += " " + words_for(option);
    }
    text += "; _files ;;\n";
  }
  return text + "  esac\n}\ncompdef _controlctl controlctl\n";
}

std::string fish_completion(Commands commands) {
  const Common common(default_controld_socket());
  std::string text =
      "# fish completion of controlctl, made by `controlctl completion fish`\ncomplete -c controlctl -f\n";
  const auto add = [&](const std::string& condition, const Option& option) {
    if (option.is_argument()) {
      const std::string words = words_for(option);
      if (!words.empty()) text += fmt::format("complete -c controlctl{} -a {}\n", condition, quoted(words));
      if (option.completes == Option::Completes::files) text += fmt::format("complete -c controlctl{} -F\n", condition);
      return;
    }
    text += fmt::format("complete -c controlctl{} -l {} -d {}", condition, option.name.substr(2), quoted(option.help));
    if (!option.is_flag()) text += option.completes == Option::Completes::files ? " -r -F" : " -x";
    if (const std::string words = words_for(option); !words.empty()) text += " -a " + quoted(words);
    text += "\n";
  };
  for (const Option& option : common.options.all()) add("", option);
  for (const Command* command : commands) {
    text += fmt::format("complete -c controlctl -n __fish_use_subcommand -a {} -d {}\n", command->name,
                        quoted(command->help));
    Options options;
    const Run keeps_the_targets = command->configure(options);
    const std::string condition = fmt::format(" -n '__fish_seen_subcommand_from {}'", command->name);
    for (const Option& option : options.all()) add(condition, option);
  }
  return text;
}

}  // namespace weir::control::ctl
