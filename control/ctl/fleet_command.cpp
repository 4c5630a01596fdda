#include "control/ctl/fleet_command.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "common/files.h"
#include "common/paths.h"
#include "control/base/json/json.h"
#include "control/ctl/line/out.h"
#include "control/ctl/print.h"
#include "control/ctl/text.h"
#include "control/policy/read/parsers.h"
#include "control/policy/read/policy.h"
#include "control/sources/fleet/names.h"
#include "control/tell/answer/request.h"

namespace weir::control::ctl::fleet_command {
namespace {

std::string as_lines(const std::string& text) {
  return text.empty() || text.ends_with('\n') ? text : text + "\n";
}

std::string who() {
  const passwd* user = getpwuid(getuid());
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  return fmt::format("{}@{}", user != nullptr ? user->pw_name : std::to_string(getuid()), host);
}

}  // namespace

int refuse(const Context& context, const std::string& error, int code) {
  if (context.json) print("{}", failure_line(error));
  print(stderr, "controlctl fleet: {}", as_lines(error));
  return code;
}

int finish(const Context& context, const FleetAnswer& answer, const std::string& text) {
  print("{}", context.json ? answer_line(answer) : as_lines(text));
  return answer.ok ? kOk : kFailed;
}

void say_waiting(const Context& context, const std::string& text) {
  if (!context.json && !context.quiet) print(stderr, "{}\n", text);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Result<Fleet> open(const Asked& asked) {
  Fleet fleet;
  if (!asked.etcd.empty()) {
    if (asked.name.empty()) return Error{"--etcd needs the name of the fleet\nhint: --name NAME"};
    fleet.settings.endpoints = split(asked.etcd);
    fleet.settings.name = asked.name;
  } else {
    const Result<std::string> config = asked.config.empty() ? default_config() : Result<std::string>(asked.config);
    if (!config)
      return Error{config.error() + "\nhint: name a file with `fleet:` by --config, or --etcd URL --name FLEET"};
    const std::optional<FleetSettings> settings = read_places(*config).fleet;
    if (!settings) {
      return Error{
          fmt::format("{} does not say which fleet it is of (`fleet:`)\nhint: name a file that does by --config, "
                      "or --etcd URL --name FLEET; `controlctl check {}` says what is wrong",
                      *config, *config)};
    }
    fleet.settings = *settings;
    if (!asked.name.empty()) fleet.settings.name = asked.name;
  }
  if (!fleet::is_name(fleet.settings.name)) return Error{"`" + fleet.settings.name + "` is no name of a fleet"};
  etcd::Access access;
  access.endpoints = fleet.settings.endpoints;
  access.tls.ca_file = fleet.settings.ca_file;
  access.tls.cert_file = fleet.settings.cert_file;
  access.tls.key_file = fleet.settings.key_file;
  access.user = fleet.settings.user;
  access.timeout_ms = 4000;
  if (!fleet.settings.password_file.empty()) {
    constexpr size_t kMostPassword = 4096;
    const Result<std::string> password = read_file(fleet.settings.password_file, kMostPassword);
    if (!password) return Error{password.error()};
    access.password = password->substr(0, password->find('\n'));
  }
  fleet.desk = std::make_unique<fleet::Desk>(std::move(access), fleet.settings.name, who());
  return fleet;
}

std::string when(int64_t at) {
  return at == 0 ? "-" : age(at);
}

Result<uint64_t> number_of(const std::string& text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number == 0) {
    return Error{"`" + text + "` is no number of a revision\nhint: controlctl fleet history names them"};
  }
  return number;
}

std::optional<double> seconds_of(const Context& context, const char* option, const std::string& text) {
  const auto duration = parse_duration(text);
  if (duration) return static_cast<double>(*duration);
  (void)refuse(context, fmt::format("{} is `{}`: it must be a time like 90s, 10m or 1h", option, text));
  return std::nullopt;
}

}  // namespace weir::control::ctl::fleet_command
