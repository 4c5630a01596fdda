#include "dataplane/start/options.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>

#include "common/options/parse.h"
#include "common/printable.h"

namespace weir::dataplane {

namespace {

bool is_program_option(const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  Options options;
  const weir::Options rows = rows_of(options);
  return name == "--version" || name == "--help" || name == "-h" ||
         std::any_of(rows.all().begin(), rows.all().end(), [&](const Option& row) { return row.name == name; });
}

// 2026-12-01T00:00:00Z, as Unix seconds. Empty: it is no such time.
std::optional<uint64_t> parse_time(const std::string& text) {
  constexpr const char* kFormat = "%Y-%m-%dT%H:%M:%SZ";
  tm parts = {};
  const char* end = strptime(text.c_str(), kFormat, &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const time_t seconds = timegm(&parts);
  // strptime takes February 30th and hours of one digit; what is written back tells.
  char again[32];
  const tm* normal = gmtime_r(&seconds, &parts);
  if (normal == nullptr || strftime(again, sizeof again, kFormat, normal) == 0 || text != again) return std::nullopt;
  if (seconds < 0) return std::nullopt;
  return static_cast<uint64_t>(seconds);
}

std::optional<int> parse_program_options(std::vector<std::string> arguments, Options& options) {
  const weir::Options rows = rows_of(options);
  const Program program{"dataplane [EAL options] --",
                        "Drops what the enforced snapshot names, on DPDK ports.\n"
                        "Without a network card, huge pages, root or a config file it runs on virtual ports.",
                        "dataplane " WEIR_VERSION};
  if (const std::optional<int> code =
          parse_options(program, std::array<const weir::Options*, 1>{&rows}, std::move(arguments))) {
    if (*code != 0) {
      std::cerr << "EAL options stand in front of `--`, the program's behind it: dataplane -l 0 -- --config FILE\n";
    }
    return code;
  }
  if (!options.now.empty()) {
    options.now_unix_s = parse_time(options.now);
    if (!options.now_unix_s) {
      std::cerr << "--now " << printable(options.now) << ": not a time like 2026-12-01T00:00:00Z\n";
      return 2;
    }
  }
  return std::nullopt;
}

}  // namespace

weir::Options rows_of(Options& options) {
  weir::Options rows;
  rows.text("--config", "FILE", options.config_path, "dataplane.yaml; every setting has a default").files();
  rows.text("--socket", "PATH", options.socket_path, "control socket, instead of the configured one").files();
  rows.text("--state-dir", "DIR", options.state_dir, "folder of the last good snapshot, instead of the configured one")
      .files();
  rows.flag("--wait-for-snapshot", options.wait_for_snapshot, "poll no port before the first snapshot enforces");
  rows.text("--now", "TIME", options.now, "fixes the clock for `expires`, as 2026-12-01T00:00:00Z; for replays");
  rows.flag("--check", options.check,
            "only say whether a start with these options and this configuration would be refused: exit code 2; changes "
            "nothing");
  rows.flag("--doctor", options.doctor,
            "say whether the machine is fit for these options and how to mend it; changes nothing");
  rows.flag("--json", options.json, "for programs, not people");
  rows.needs("--json", "--doctor");
  return rows;
}

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
