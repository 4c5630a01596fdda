#include "common/manual/completion.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::manual {

namespace {

std::string names_of(const std::vector<Subcommand>& commands) {
  std::string text;
  for (const Subcommand& command : commands) text += (text.empty() ? "" : " ") + command.name;
  return text;
}

// A function that a shell may have.
std::string function_of(const Completed& program) {
  return "_" + program.name;
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

std::string option_names(const Options& options) {
  std::string words;
  for (const Option& option : options.all()) {
    if (!option.is_argument()) words += option.name + " ";
  }
  return words;
}

// Options that take a value, as a pattern of `case`.
std::string with_value(const Options& options) {
  std::string names;
  for (const Option& option : options.all()) {
    if (!option.is_argument() && !option.is_flag()) names += (names.empty() ? "" : "|") + option.name;
  }
  return names;
}

}  // namespace

std::string words_for(const Option& option) {
  return fmt::format("{}", fmt::join(option.choices.empty() ? option.suggested : option.choices, " "));
}

std::string in_apostrophes(const std::string& text) {
  std::string all = "'";
  for (const char c : text) all += c == '\'' ? "'\\''" : std::string(1, c);
  return all + "'";
}

std::string bash_completion(const Completed& program) {
  const std::string function = function_of(program);
  std::string text = fmt::format("# bash completion of {}\n{}() {{\n", program.name, function);
  // Bash takes `--option=value` apart at the `=`.
  text +=
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command= i\n"
      "  if [[ $word == = ]]; then word=\n"
      "  elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}\n"
      "  fi\n";
  if (!program.commands.empty()) {
    text += fmt::format(
        "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
        "    case ${{COMP_WORDS[i]}} in\n"
        "      {}) [[ ${{COMP_WORDS[i+1]}} == = ]] && ((i++)); ((i++)) ;;\n"
        "      -*) ;;\n"
        "      *) command=${{COMP_WORDS[i]}}; break ;;\n"
        "    esac\n"
        "  done\n",
        with_value(*program.options));
  }
  text += "  case $before in\n";
  add_values(text, *program.options, "    ");
  text += "  esac\n";
  const std::string common = option_names(*program.options);
  if (program.commands.empty()) {
    text += fmt::format("  COMPREPLY=($(compgen -W '{}{}--help --version' -- \"$word\"))\n", common,
                        program.has_others_first ? "-- " : "");
  } else {
    text +=
        fmt::format("  case $command in\n    '') COMPREPLY=($(compgen -W '{} {}--help --version' -- \"$word\")) ;;\n",
                    names_of(program.commands), common);
    for (const Subcommand& command : program.commands) {
      text += fmt::format("    {})\n      case $before in\n", command.name);
      add_values(text, *command.options, "        ");
      text += fmt::format(
          "      esac\n"
          "      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W '{}{}--help' -- \"$word\")); return; fi\n",
          option_names(*command.options), common);
      for (const Option& option : command.options->all()) {
        if (option.is_argument() || option.is_argument_too) text += fmt::format("      {}\n", values_in_bash(option));
      }
      text += "      ;;\n";
    }
    text += "  esac\n";
  }
  return text + fmt::format("}}\ncomplete -o bashdefault -F {} {}{}\n", function, program.name,
                            program.other_name.empty() ? "" : " " + program.other_name);
}

std::string fish_completion(const Completed& program) {
  std::string text = fmt::format("# fish completion of {0}\ncomplete -c {0} -f\n", program.name);
  const auto add = [&](const std::string& condition, const Option& option) {
    const std::string words = words_for(option);
    const std::string begin = fmt::format("complete -c {}{}", program.name, condition);
    const bool takes_files = option.completes == Option::Completes::files;
    if (option.is_argument() || option.is_argument_too) {
      if (!words.empty()) text += fmt::format("{} -a {}\n", begin, in_apostrophes(words));
      if (takes_files) text += begin + " -F\n";
      if (option.is_argument()) return;
    }
    const bool is_long = option.name.starts_with("--");
    text += fmt::format("{} -{} {} -d {}", begin, is_long ? 'l' : 's', option.name.substr(is_long ? 2 : 1),
                        in_apostrophes(option.help));
    if (!option.is_flag()) text += takes_files ? " -r -F" : " -x";
    if (!words.empty()) text += " -a " + in_apostrophes(words);
    if (option.completes == Option::Completes::interfaces) text += " -a '(command ls /sys/class/net)'";
    text += "\n";
  };
  const auto at = [&](const std::string& command) {
    return program.commands.empty() ? "" : fmt::format(" -n '__{}_at \"{}\"'", program.name, command);
  };
  if (!program.commands.empty()) {
    // Whether the command is this one; "": none was typed yet.
    std::string valued = with_value(*program.options);
    std::replace(valued.begin(), valued.end(), '|', ' ');
    text += fmt::format(
        "function __{}_at\n"
        "  set -l words (commandline -opc)\n"
        "  set -l command\n"
        "  set -e words[1]\n"
        "  while set -q words[1]; and test -z \"$command\"\n"
        "    switch $words[1]\n"
        "      case {}\n"
        "        set -q words[2]; and set -e words[2]\n"
        "      case '-*'\n"
        "      case '*'\n"
        "        set command $words[1]\n"
        "    end\n"
        "    set -e words[1]\n"
        "  end\n"
        "  test \"$command\" = \"$argv[1]\"\n"
        "end\n",
        program.name, valued);
  }
  for (const Option& option : program.options->all()) add("", option);
  text += fmt::format("complete -c {} -s h -l help -d 'say what there is'\n", program.name);
  text += fmt::format("complete -c {}{} -l version -d 'say which version it is'\n", program.name, at(""));
  for (const Subcommand& command : program.commands) {
    text +=
        fmt::format("complete -c {}{} -a {} -d {}\n", program.name, at(""), command.name, in_apostrophes(command.help));
    for (const Option& option : command.options->all()) add(at(command.name), option);
  }
  if (!program.other_name.empty()) text += fmt::format("complete -c {} -w {}\n", program.other_name, program.name);
  return text;
}

std::string completion_for(const std::string& shell, const Completed& program) {
  if (shell == "bash") return bash_completion(program);
  return shell == "zsh" ? zsh_completion(program) : fish_completion(program);
}

}  // namespace weir::manual
