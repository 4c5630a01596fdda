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
constexpr Heading kHeadings[] = {{Group::everyday, "Every day"},
                                 {Group::look, "To see more"},
                                 {Group::change, "To change more"},
                                 {Group::file, "Without controld"},
                                 {Group::own, "The program itself"}};

// Words that people try, and that no command is the answer to.
struct Way {
  std::string_view word;
  const char* text;
};
constexpr const char* kStarts =
    "`systemctl start weir-controld` starts controld; `controlctl bypass off` enforces the policy again";
constexpr const char* kStops =
    "`controlctl bypass on` lets every packet pass; `systemctl stop weir-controld` stops controld, and its targets "
    "enforce on";
constexpr const char* kLogs =
    "`controlctl drops` shows dropped packets, `controlctl history` what was published, `journalctl -u weir-controld` "
    "the log";
constexpr Way kWays[] = {
    {"start", kStarts},
    {"enable", kStarts},
    {"stop", kStops},
    {"disable", kStops},
    {"restart",
     "`controlctl reload` reads policy and feeds again; `systemctl restart weir-controld` restarts controld"},
    {"log", kLogs},
    {"logs", kLogs},
    {"save", "controlctl has nothing to save: each change is on disk when its command ends"},
};

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

std::vector<std::string_view> synonyms_of(const Command& command) {
  std::vector<std::string_view> words;
  for (std::string_view rest = command.synonyms; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return words;
}

std::string usage_of(const Command& command, const Options& options, const std::string& program) {
  std::string text = fmt::format("{} {}", program, command.name);
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
  options.flag("--wide", context.wide, "print tables whole, however narrow the terminal is");
  options.flag("--quiet", context.quiet, "print results and errors alone: no progress, and not what is waited for");
}

const Command* find_command(Commands commands, std::string_view word) {
  const auto found = std::find_if(commands.begin(), commands.end(), [&](const Command* command) {
    const std::vector<std::string_view> synonyms = synonyms_of(*command);
    return command->name == word || std::find(synonyms.begin(), synonyms.end(), word) != synonyms.end();
  });
  return found == commands.end() ? nullptr : *found;
}

std::string help_of_all(Commands commands, const std::string& program) {
  std::vector<std::string> names;
  for (const Command* command : commands) names.emplace_back(command->name);
  const size_t width = widest(names);
  std::string text = fmt::format("usage: {} COMMAND [OPTIONS]\n\nAsks controld, or changes what it does.\n", program);
  for (const Heading& heading : kHeadings) {
    text += fmt::format("\n{}:\n", heading.text);
    for (const Command* command : commands) {
      if (command->group == heading.group) text += fmt::format("  {:<{}}  {}\n", command->name, width, command->help);
    }
  }
  const Common common(find_controld_socket());
  text += "\nOptions of every command:\n" + table_of(common.options);
  return text + fmt::format(
                    "  -h, --help     what a command does, and its options\n  --version\n\n"
                    "`{} help COMMAND` says more about one.\n",
                    program);
}

std::string help_of(const Command& command, const std::string& program) {
  Options options;
  const Run keeps_the_targets = command.configure(options);
  const Common common(find_controld_socket());
  std::string text = fmt::format("usage: {}\n\n{}\n", usage_of(command, options, program), command.help);
  if (const auto synonyms = synonyms_of(command); !synonyms.empty()) {
    text += fmt::format("\nOther words for it: {}\n", fmt::join(synonyms, ", "));
  }
  if (*command.details != '\0') text += fmt::format("\n{}\n", command.details);
  if (!options.all().empty()) text += "\nOptions:\n" + table_of(options);
  return text + "\nOptions of every command:\n" + table_of(common.options);
}

std::string unknown_command(Commands commands, std::string_view word) {
  const std::string error = fmt::format("there is no command `{}`\nhint: ", word);
  for (const Way& way : kWays) {
    if (way.word == word) return error + way.text + "\n";
  }
  std::vector<std::string_view> names;
  for (const Command* command : commands) {
    names.emplace_back(command->name);
    for (const std::string_view synonym : synonyms_of(*command)) names.push_back(synonym);
  }
  std::vector<std::string_view> near;  // at most two, of different commands
  while (near.size() < 2) {
    const std::string_view next = nearest_name(word, names);
    if (next.empty()) break;
    const Command* const meant = find_command(commands, next);
    near.emplace_back(meant->name);
    std::erase_if(names, [&](std::string_view name) { return find_command(commands, name) == meant; });
  }
  std::string text;
  for (const std::string_view name : near) text += fmt::format("{}`{}`", text.empty() ? "did you mean " : " or ", name);
  return error + (text.empty() ? "" : text + "? ") + "`controlctl help` lists the commands\n";
}

}  // namespace weir::control::ctl
