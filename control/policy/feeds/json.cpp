#include "control/policy/feeds/json_records.h"

namespace weir::control::feeds {
namespace json {

constexpr Setting kSettings[] = {
    {"path", "keys from the root to the entries, joined by dots; arrays on the way do not count: `values.prefixes`"},
    {"address", "key of the address or prefix; several: `ipv4Prefix|ipv6Prefix`"},
    {"last", "key of the last address of a range"},
    {"port", "key of the port; `none`: there is none, whatever it is called"},
    {"length", "key of the prefix length"},
};

std::vector<std::string> alternatives(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const size_t end = std::min(text.find('|'), text.size());
    all.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return all;
}

JsonShape shape_of(const Options& options) {
  JsonShape shape;
  shape.paths = alternatives(find_setting(options.settings, "path"));
  constexpr const char* kNames[kParts] = {"address", "last", "port", "length"};
  for (size_t i = 0; i < kParts; i++) shape.names[i] = alternatives(find_setting(options.settings, kNames[i]));
  std::vector<std::string>& ports = shape.names[static_cast<size_t>(Part::port)];
  shape.has_no_port = ports == std::vector<std::string>{"none"};
  if (shape.has_no_port) ports.clear();
  return shape;
}

std::string recognise(std::string_view beginning) {
  return begins_json(trim(beginning)) ? "it begins as JSON does" : "";
}

Read start(const Options& options, std::string_view /*beginning*/) {
  return read_json(shape_of(options), options);
}

ListDraft read_all(const Read& read, std::string_view text) {
  ListDraft list;
  read(text, list);
  read({}, list);
  return list;
}

// Of a line that is all there is.
bool is_record(std::string_view line) {
  return read_all(read_json({}, {}), line).entries() == 0 && read_all(read_json_lines({}, {}), line).entries() > 0;
}

// Lines that are whole objects each; one alone may be a document.
std::string recognise_lines(std::string_view beginning) {
  const std::string_view text = trim(beginning);
  if (!text.starts_with('{') || !begins_json(text)) return "";
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view first = trim(text.substr(0, end)), rest = trim(text.substr(end));
  if (rest.empty()) return first.ends_with('}') && is_record(first) ? "its line is a JSON object with an address" : "";
  if (!first.ends_with('}')) return "";
  constexpr unsigned kAsked = 32;
  unsigned asked = 0, alike = 0;
  for (std::string_view lines = rest; !lines.empty() && asked < kAsked;) {
    const std::string_view line = trim(next_line(lines));
    if (line.empty()) continue;
    asked++;
    alike += (line[0] == '{' && (line.back() == '}' || lines.empty())) || (line[0] == '[' && line.back() == ']');
  }
  return alike * 2 > asked || rest.starts_with('{') ? "its lines are JSON objects" : "";
}

Read start_lines(const Options& options, std::string_view /*beginning*/) {
  return read_json_lines(shape_of(options), options);
}

}  // namespace json

extern const Format kJsonFormat;
const Format kJsonFormat = {"json",          "JSON: an array of texts or objects, or an object that holds such a list",
                            json::recognise, json::start,
                            Parts::bytes,    true,
                            json::kSettings};

extern const Format kJsonLinesFormat;
const Format kJsonLinesFormat = {
    "jsonl", "a JSON object a line", json::recognise_lines, json::start_lines, Parts::lines, true, json::kSettings};

}  // namespace weir::control::feeds
