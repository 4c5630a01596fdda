#include "dataplane/options.h"

#include <algorithm>

#include <CLI/CLI.hpp>

namespace weir::dataplane {

namespace {

constexpr const char* kProgramOptions[] = {"--config",  "--socket", "--state-dir", "--wait-for-snapshot",
                                           "--version", "--help",   "-h"};

bool is_program_option(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  return std::find(std::begin(kProgramOptions), std::end(kProgramOptions), name) != std::end(kProgramOptions);
}

// CLI11 throws; nothing gets past this function.
std::optional<int> parse_program_options(std::vector<std::string> arguments, Options& options) {
  CLI::App app(
      "Drops what the enforced snapshot names, on DPDK ports.\n"
      "Without a network card, huge pages, root or a config file it runs on virtual ports.",
      "dataplane [EAL options] --");
  app.add_option("--config", options.config_path, "dataplane.yaml; every setting has a default");
  app.add_option("--socket", options.socket_path, "control socket, instead of the configured one");
  app.add_option("--state-dir", options.state_dir, "folder of the last good snapshot, instead of the configured one");
  app.add_flag("--wait-for-snapshot", options.wait_for_snapshot, "poll no port before the first snapshot enforces");
  app.set_version_flag("--version", "dataplane " WEIR_VERSION);
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    if (code == 0) return 0;
    std::cerr << "EAL options stand in front of `--`, the program's behind it: dataplane -l 0 -- --config FILE\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "dataplane: cannot read the command line: " << error.what() << "\n";
    return 2;
  }
  return std::nullopt;
}

}  // namespace

CommandLine parse_command_line(std::span<const std::string> arguments) {
  CommandLine line;
  std::vector<std::string> program;
  const auto separator = std::find(arguments.begin(), arguments.end(), "--");
  if (separator != arguments.end()) {
    line.eal.assign(arguments.begin(), separator);
    program.assign(separator + 1, arguments.end());
  } else if (std::any_of(arguments.begin(), arguments.end(), is_program_option)) {
    program.assign(arguments.begin(), arguments.end());
  } else {
    line.eal.assign(arguments.begin(), arguments.end());
  }
  line.exit_code = parse_program_options(std::move(program), line.options);
  return line;
}

}  // namespace weir::dataplane
