#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/nearest.h"
#include "common/paths.h"
#include "control/ctl/line/pages.h"

namespace weir::control::ctl {

namespace {

struct Heading {
  Group group;
  const char* text;
};
constexpr Heading kHeadings[] = {{Group::look, "What is enforced"},
                                 {Group::change, "To change it"},
                                 {Group::file, "Without controld"},
                                 {Group::own, "controlctl itself"}};

size_t widest(const std::vector<std::string>& names) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  return width;
}

// FILE; --fpr RATE; --once
std::string name_of(const Option& option) {
  return option.value_name.empty() ? option.name : option.name + " " + option.value_name;
}

std::string remark_of(const Option& option) {
  std::string text;
  if (!option.choices.empty()) text = fmt::format("one of {}", fmt::join(option.choices, ", "));
  const std::string usual = option.default_text();
  if (!usual.empty()) text += fmt::format("{}default: {}", text.empty() ? "" : "; ", usual);
  return text.empty() ? "" : " (" + text + ")";
}

std::string table_of(const Options& options) {
  std::vector<std::string> names;
  for (const Option& option : options.all()) names.push_back(name_of(option));
  const size_t width = widest(names);
  std::string text;
  for (size_t i = 0; i < names.size(); i++) {
    const Option& option = options.all()[i];
    text += fmt::format("  {:<{}}  {}{}\n", names[i], width, option.help, remark_of(option));
  }
  return text;
}

std::string usage_of(const Command& command, const Options& options) {
  std::string text = fmt::format("controlctl {}", command.name);
  const std::vector<std::string>& one = options.one_of_names();
  if (!one.empty()) text += fmt::format(" {}", fmt::join(one, "|"));
  bool has_more = false;
  for (const Option& option : options.all()) {
    if (std::find(one.begin(), one.end(), option.name) != one.end()) continue;
    const std::string choices = fmt::format("{}", fmt::join(option.choices, "|"));
    if (option.is_argument()) {
      const std::string what = choices.empty() ? option.name : choices;
      text += option.is_required ? " " + what : " [" + what + "]";
    } else if (option.is_argument_too) {
      text += " [" + option.value_name + "]";
    } else if (option.is_required) {
      text += " " + name_of(option);
    } else {
      has_more = true;
    }
  }
  return text + (has_more ? " [OPTIONS]" : "");
}

}  // namespace

Common::Common(std::string socket) {
  context.socket = std::move(socket);
  options.text("--socket", "PATH", context.socket, "of controld").files();
  options.flag("--json", context.json, "print JSON instead of text for people");
  options.flag("--quiet", context.quiet, "print results and errors alone: no progress, and not what is waited for");
}

const Command* find_command(Commands commands, std::string_view name) {
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command* c) { return c->name == name; });
  return found == commands.end() ? nullptr : *found;
}

std::string help_of_all(Commands commands) {
  std::vector<std::string> names;
  for (const Command* command : commands) names.emplace_back(command->name);
  const size_t width = widest(names);
  std::string text = "usage: controlctl COMMAND [OPTIONS]\n\nAsks controld, or changes what it does.\n";
  for (const Heading& heading : kHeadings) {
    text += fmt::format("\n{}:\n", heading.text);
    for (const Command* command : commands) {
      if (command->group == heading.group) text += fmt::format("  {:<{}}  {}\n", command->name, width, command->help);
    }
  }
  const Common common(find_controld_socket());
  text += "\nOptions of every command:\n" + table_of(common.options);
  return text +
         "  -h, --help     what a command does, and its options\n  --version\n\n"
         "`controlctl help COMMAND` says more about one.\n";
}

std::string help_of(const Command& command) {
  Options options;
  const Run keeps_the_targets = command.configure(options);
  const Common common(find_controld_socket());
  std::string text = fmt::format("usage: {}\n\n{}\n", usage_of(command, options), command.help);
  if (*command.details != '\0') text += fmt::format("\n{}\n", command.details);
  if (!options.all().empty()) text += "\nOptions:\n" + table_of(options);
  return text + "\nOptions of every command:\n" + table_of(common.options);
}

std::string command_names(Commands commands) {
  std::string text;
  for (const Command* command : commands) text += fmt::format("{}{}", text.empty() ? "" : ", ", command->name);
  return text;
}

std::string unknown_command(Commands commands, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Command* command : commands) names.emplace_back(command->name);
  const std::string_view near = nearest_name(name, names);
  return fmt::format("there is no command `{}`\nhint: {}{}\n", name,
                     near.empty() ? "" : fmt::format("did you mean `{}`? ", near),
                     "the commands are " + command_names(commands));
}

}  // namespace weir::control::ctl
