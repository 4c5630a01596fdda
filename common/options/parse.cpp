#include "common/options/parse.h"

#include <algorithm>
#include <sstream>

#include <CLI/CLI.hpp>

#include "common/printable.h"

// The only file of the programs that includes CLI11: it takes 6 s and more to compile.
namespace weir {

namespace {

std::string names_of(const Option& option) {
  return option.is_argument_too ? option.name + "," + option.name.substr(2) : option.name;
}

CLI::Option* add_value(CLI::App& app, const Option& option) {
  const std::string names = names_of(option);
  if (auto* text = std::get_if<std::string*>(&option.target)) {
    CLI::Option* added = app.add_option(names, **text, option.help);
    return (*text)->empty() ? added : added->capture_default_str();
  }
  if (auto* texts = std::get_if<std::vector<std::string>*>(&option.target)) {
    return app.add_option(names, **texts, option.help)
        ->expected(option.is_argument() ? -1 : 1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
  if (auto* number = std::get_if<double*>(&option.target)) {
    return app.add_option(names, **number, option.help)->check(CLI::Range(option.low, option.high));
  }
  return app.add_option(names, *std::get<unsigned*>(option.target), option.help)
      ->check(CLI::Range(static_cast<unsigned>(option.low), static_cast<unsigned>(option.high)));
}

void add(CLI::App& app, const Option& option) {
  if (auto* flag = std::get_if<bool*>(&option.target)) {
    app.add_flag(option.name, **flag, option.help);
    return;
  }
  CLI::Option* added = add_value(app, option);
  if (!option.choices.empty()) added->check(CLI::IsMember(option.choices));
  if (option.is_required) added->required();
}

void add(CLI::App& app, const Options& options) {
  const std::vector<std::string>& one = options.one_of_names();
  CLI::Option_group* group = one.empty() ? nullptr : app.add_option_group("one of");
  for (const Option& option : options.all()) {
    const bool in_group = std::find(one.begin(), one.end(), option.name) != one.end();
    add(in_group ? *group : app, option);
  }
  if (group != nullptr) group->require_option(1);
  for (const auto& [name, other] : options.all_needs()) app.get_option(name)->needs(app.get_option(other));
}

}  // namespace

// CLI11 throws; nothing gets past this function.
std::optional<int> parse_options(const Program& program, std::span<const Options* const> options,
                                 std::vector<std::string> arguments, const std::function<std::string()>& help,
                                 const std::function<void(const std::string&)>& refused) {
  CLI::App app(program.description, program.name);
  try {
    for (const Options* some : options) add(app, *some);
    app.set_version_flag("--version", program.version);
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp& e) {
    print_text(stdout, help ? help() : app.help());
    return 0;
  } catch (const CLI::ParseError& e) {
    // Words of the command line may come from a file: they are printable.
    std::ostringstream out, error;
    const int code = app.exit(e, out, error);
    print_text(stdout, out.str());
    print_text(stderr, error.str());
    if (code == 0) return 0;
    if (refused) refused(e.what());
    return 2;
  } catch (const std::exception& e) {
    print_text(stderr, program.name + std::string(": cannot read the command line: ") + e.what() + "\n");
    return 2;
  }
  return std::nullopt;
}

}  // namespace weir
