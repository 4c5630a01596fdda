#include "control/policy/read/format_choice.h"

#include <algorithm>

#include "control/policy/feeds/apart.h"
#include "control/policy/read/policy_keys.h"

namespace weir::control {

using yaml::Kind;
using yaml::Node;

namespace {

std::optional<FormatChoice> choice_named(const PolicyFile& file, const Node& place, const std::string& name) {
  FormatChoice choice;
  if (name == "auto") return choice;
  choice.format = feeds::find_format(name);
  if (choice.format != nullptr) return choice;
  std::string known = "auto";
  for (const feeds::Format* format : feeds::formats()) known += std::string(", ") + format->name;
  file.error(place, "`format` is " + quoted(name) + ", which is not known", "formats: " + known);
  return std::nullopt;
}

// One value, or several as alternatives.
std::optional<std::string> value_of(const PolicyFile& file, const Node& node) {
  std::string text;
  if (node.kind == Kind::scalar) text = node.text;
  for (const Node& item : node.items) text += (text.empty() ? "" : "|") + item.text;
  const bool is_good = !text.empty() && text.find_first_of(",=()") == std::string::npos &&
                       std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
  if (is_good) return text;
  file.error(node, "a setting of the format is " + control::quoted(text), "a name or a number, without , = ( and )");
  return std::nullopt;
}

void read_settings(const PolicyFile& file, const Node& node, FormatChoice& choice) {
  const std::string what = std::string("`format: ") + choice.format->name + "`";
  yaml::MapReader settings(file.document, &node, format_section(*choice.format), file.diagnostics);
  for (const feeds::Setting& setting : choice.format->settings) {
    const Node* value = settings.find(setting.name);
    if (value == nullptr) continue;
    const auto text = value_of(file, *value);
    if (text) choice.settings += (choice.settings.empty() ? "" : ",") + std::string(setting.name) + "=" + *text;
  }
  settings.finish();
  if (choice.settings.size() > feeds::ParseRequest::kMostSettings) {
    file.error(node,
               "the settings of " + what + " are longer than " + std::to_string(feeds::ParseRequest::kMostSettings) +
                   " characters",
               "shorten them");
  }
}

}  // namespace

std::string FormatChoice::text() const {
  if (format == nullptr) return "auto";
  return settings.empty() ? format->name : std::string(format->name) + "(" + settings + ")";
}

std::optional<FormatChoice> read_format(const PolicyFile& file, yaml::MapReader& list) {
  const Node* node = list.find("format");
  if (node == nullptr) return FormatChoice{};
  if (node->kind != Kind::map) {
    const auto name = list.text("format");
    return name ? choice_named(file, *node, *name) : std::nullopt;
  }
  if (node->members.size() != 1) {
    file.error(*node, "`format` names one format with its settings", "as in format: {csv: {address: 2, port: 3}}");
    return std::nullopt;
  }
  const yaml::Member& member = node->members.front();
  auto choice = choice_named(file, member.key, member.key.text);
  if (!choice || member.value.kind == Kind::null) return choice;
  const size_t errors = file.diagnostics.errors();
  if (choice->format == nullptr) {
    file.error(member.value, "`format: auto` has no settings", "name the format that has them");
  } else {
    read_settings(file, member.value, *choice);
  }
  return file.diagnostics.errors() == errors ? choice : std::nullopt;
}

}  // namespace weir::control
