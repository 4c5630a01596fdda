#include "control/ctl/setup_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <string_view>

#include "control/ctl/text.h"

namespace weir::control::ctl {

namespace {

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// Returns the value behind `key:` at the begin of the line, without a comment. Empty: the line has another key.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key) || line.substr(key.size(), 1) != ":") return std::nullopt;
  std::string_view value = line.substr(key.size() + 1);
  value = value.substr(0, value.starts_with("#") ? 0 : value.find(" #"));
  value.remove_prefix(std::min(value.find_first_not_of(" \t\r"), value.size()));
  value = value.substr(0, value.find_last_not_of(" \t\r") + 1);
  return value;
}

// The blanks before the first item of the list that follows the line. Two where there is none.
std::string indent_of(const std::vector<std::string>& lines, size_t line) {
  for (size_t next = line + 1; next < lines.size(); next++) {
    const size_t begin = lines[next].find_first_not_of(" \t");
    if (begin == std::string::npos || lines[next][begin] == '#') continue;
    return lines[next][begin] == '-' ? lines[next].substr(0, begin) : "  ";
  }
  return "  ";
}

}  // namespace

Result<std::string> with_target(const std::string& policy, const std::string& target) {
  std::vector<std::string> lines = lines_of(policy);
  const auto is = [](const char* key) {
    return [key](const std::string& line) { return value_of(line, key).has_value(); };
  };
  const auto targets = std::find_if(lines.begin(), lines.end(), is("targets"));
  if (targets == lines.end()) {
    const auto lists = std::find_if(lines.begin(), lines.end(), is("lists"));
    lines.insert(lists, {"targets:", "  - " + target, ""});
    return text_of(lines);
  }
  const std::string_view value = *value_of(*targets, "targets");
  if (!value.empty() && value != "[]" && value != "null" && value != "~") {
    return Error{fmt::format("line {} has all targets in one line\nhint: add {{{}}} to them by hand",
                             targets - lines.begin() + 1, target)};
  }
  const std::string item = indent_of(lines, static_cast<size_t>(targets - lines.begin())) + "- " + target;
  if (!value.empty()) *targets = "targets:";
  lines.insert(targets + 1, item);
  return text_of(lines);
}

std::optional<std::string> with_interface(const std::string& policy, const std::string& interface) {
  static const std::regex kInterfaces(R"(^([^#]*xdp:[^#]*interfaces: *\[)([^\]#]*)(\].*)$)");
  std::vector<std::string> lines = lines_of(policy);
  for (std::string& line : lines) {
    std::smatch parts;
    if (!std::regex_match(line, parts, kInterfaces)) continue;
    const bool is_first = parts[2].str().find_first_not_of(' ') == std::string::npos;
    line = fmt::format("{}{}{}{}{}", parts[1].str(), parts[2].str(), is_first ? "" : ", ", interface, parts[3].str());
    return text_of(lines);
  }
  return std::nullopt;
}

Result<std::string> with_ports(const std::string& env, const std::vector<std::string>& addresses) {
  constexpr std::string_view kName = "EAL_OPTIONS=";
  std::string wanted = std::string(kName) + "\"-l 1";
  for (const std::string& address : addresses) wanted += " -a " + address;
  wanted += "\"";
  std::vector<std::string> lines = lines_of(env);
  const auto there =
      std::find_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(kName); });
  if (there == lines.end()) {
    lines.push_back(wanted);
  } else {
    const std::string value = there->substr(kName.size());
    if (value != "\"\"" && !value.empty() && *there != wanted) {
      return Error{
          fmt::format("line {} has {}\nhint: write {} there by hand", there - lines.begin() + 1, *there, wanted)};
    }
    *there = wanted;
  }
  return text_of(lines);
}

}  // namespace weir::control::ctl
