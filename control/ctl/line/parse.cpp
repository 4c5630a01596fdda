#include "common/options/parse.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string_view>
#include <vector>

#include "common/paths.h"
#include "common/realtime.h"
#include "control/ctl/line/out.h"
#include "control/ctl/line/pages.h"
#include "control/tell/answer/request.h"

namespace weir::control::ctl {

namespace {

// Where the first word stands that is neither an option nor the value of one; arguments.end(): there is none.
auto find_word(const std::vector<std::string>& arguments) {
  auto at = arguments.begin();
  for (; at != arguments.end(); at++) {
    if (*at == "--socket") {
      if (std::next(at) != arguments.end()) at++;
    } else if (at->empty() || at->front() != '-') {
      break;
    }
  }
  return at;
}

}  // namespace

int run_line(Commands commands, int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // Before there is a command line: whoever reads JSON gets it, whatever is wrong.
  const bool json = std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
  const auto refused = [json](const std::string& error) {
    if (json) print("{}", failure_line(error));
  };
  Common common(find_controld_socket());
  common.context.line = argv;
  const std::string called = argc > 0 ? argv[0] : "";
  if (called.substr(called.rfind('/') + 1) == "weir") common.context.program = "weir";
  const std::string& program = common.context.program;
  const std::string version = program + " " WEIR_VERSION;
  Options options;
  Run run;
  const Command* command = nullptr;
  std::optional<realtime::Scope> urgent;
  if (const auto word = find_word(arguments); word != arguments.end()) {
    command = find_command(commands, *word);
    if (command == nullptr) {
      const std::string error = unknown_command(commands, *word);
      refused(error.substr(0, error.size() - 1));  // without the end of line
      print(stderr, "controlctl: {}", error);
      return kUsage;
    }
    if (command->is_urgent) urgent.emplace();
    arguments.erase(word);
    run = command->configure(options);
  }
  const auto help = [&] { return command != nullptr ? help_of(*command, program) : help_of_all(commands, program); };
  const std::optional<int> code =
      parse_options({"controlctl", "", version.c_str()}, std::array<const Options*, 2>{&options, &common.options},
                    std::move(arguments), help, refused);
  if (code) return *code;
  if (command == nullptr) {
    refused("a command is missing");
    print(stderr, "controlctl: a command is missing\n\n{}", help_of_all(commands, program));
    return kUsage;
  }
  if (common.context.wide) print_wide();
  return run(common.context);
}

}  // namespace weir::control::ctl
