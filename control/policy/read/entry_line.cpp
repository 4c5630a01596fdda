#include "control/policy/read/entry_line.h"

#include <algorithm>
#include <vector>

#include "common/yaml/yaml.h"
#include "control/policy/model/fields.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/policy_entries.h"

namespace weir::control {
namespace {

using yaml::Kind;
using yaml::Member;
using yaml::Node;

constexpr const char* kExample =
    "\nhint: as in 203.0.113.7, 198.51.100.0/24, 203.0.113.7:443 or 'src 10.0.0.0/8 dst 203.0.113.9 proto tcp dport "
    "8000-8010'";

std::vector<std::string> split(std::string_view text, std::string_view separators) {
  std::vector<std::string> parts;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
    if (text.empty()) return parts;
    parts.emplace_back(text.substr(0, text.find_first_of(separators)));
    text.remove_prefix(parts.back().size());
  }
}

Node node_of(Kind kind, std::string text = "") {
  Node node;
  node.kind = kind;
  node.line = node.column = 1;
  node.text = std::move(text);
  return node;
}

Node sequence_of(std::string_view texts) {
  Node node = node_of(Kind::sequence);
  if (texts == "none") return node;
  for (std::string& text : split(texts, ",")) node.items.push_back(node_of(Kind::scalar, std::move(text)));
  return node;
}

Node& member_of(Node& map, std::string_view key, Kind kind) {
  for (Member& member : map.members) {
    if (member.key.text == key) return member.value;
  }
  return map.members.emplace_back(Member{node_of(Kind::scalar, std::string(key)), node_of(kind)}).value;
}

// A field and its value, as a policy file would have them.
void add(Node& map, const Field& field, const std::string& value) {
  switch (field.form) {
    case FieldForm::scalar:
      member_of(map, field.key, Kind::scalar).text = value;
      break;
    case FieldForm::list:
      member_of(map, field.key, Kind::sequence) = sequence_of(value);
      break;
    case FieldForm::number:
      member_of(member_of(map, field.key, Kind::map), field.inner, Kind::scalar).text = value;
      break;
    case FieldForm::bits: {
      const size_t slash = value.find('/');
      Node& bits = member_of(map, field.key, Kind::map);
      member_of(bits, "set", Kind::sequence) = sequence_of(value.substr(0, slash));
      if (slash != std::string::npos) {
        member_of(bits, "mask", Kind::sequence) = sequence_of(value.substr(slash + 1));
      }
      break;
    }
  }
}

// Words, two by two, become the map that a policy file would have.
Result<Node> map_of_words(std::string_view text) {
  Node map = node_of(Kind::map);
  std::vector<std::string_view> given;
  const std::vector<std::string> words = split(text, " \t");
  for (size_t i = 0; i < words.size();) {
    std::string_view name = words[i];
    const bool is_side = name == "src" || name == "dst";
    auto field = std::find_if(fields().begin(), fields().end(), [&](const Field& each) { return each.label == name; });
    // `tcp` alone is `proto tcp`, as `explain` writes it.
    const bool is_protocol = !is_side && field == fields().end() && parse_protocol(name);
    if (is_protocol) {
      field = std::find_if(fields().begin(), fields().end(),
                           [](const Field& each) { return each.asks == WEIR_ASKS_PROTOCOL; });
      name = field->label;
    }
    if (!is_side && field == fields().end()) {
      std::string known = "src, dst";
      for (const Field& each : fields()) known += ", " + std::string(each.label);
      return Error{"`" + words[i] + "` is no field of an entry; there are " + known + kExample};
    }
    if (std::find(given.begin(), given.end(), name) != given.end()) {
      return Error{"`" + std::string(name) + "` is given twice" + kExample};
    }
    given.push_back(name);
    if (!is_protocol && i + 1 == words.size()) return Error{"`" + words[i] + "` has no value" + kExample};
    const std::string& value = words[is_protocol ? i : i + 1];
    if (is_side) {
      member_of(map, name, Kind::scalar).text = value;
    } else {
      add(map, *field, value);
    }
    i += is_protocol ? 1 : 2;
  }
  return map;
}

constexpr uint8_t kNoMatch = 0;  // the entry names its side itself

// Returns its text in a list with this `match`.
Result<std::string> read_map(const yaml::Document& document, const Node& map, bool allow_any, uint8_t match,
                             ListDraft& list) {
  Diagnostics diagnostics;
  const size_t n_v4 = list.v4.size(), n_v6 = list.v6.size(), n_flows = list.flows.size();
  read_entry_map({document, diagnostics, 0}, map, allow_any, list);
  for (const Diagnostic& diagnostic : diagnostics.kept()) {
    if (diagnostic.severity != Severity::error) continue;
    return Error{diagnostic.message + (diagnostic.hint.empty() ? "" : "\nhint: " + diagnostic.hint)};
  }
  const auto text_of = [match](auto& entry) {
    entry.line = 0;                                                // of no file
    if (entry.sides() == match) entry.directions = entry.sides();  // its text does not name the side
    return entry_text(entry, match);
  };
  if (list.v4.size() != n_v4) return text_of(list.v4.back());
  if (list.v6.size() != n_v6) return text_of(list.v6.back());
  if (list.flows.size() != n_flows) {
    list.flows.back().line = 0;
    return flow_line(list.flows.back());
  }
  return Error{std::string("the entry says nothing") + kExample};
}

}  // namespace

Result<std::string> read_entry_line(std::string_view text, bool allow_any, ListDraft& list) {
  const EntryText parsed = parse_entry(text);
  if (const auto* error = std::get_if<EntryError>(&parsed)) {
    const bool is_one_word = text.find_first_of(" \t") == std::string_view::npos;
    if (is_one_word) return Error{"`" + std::string(text) + "`: " + error->reason + "\nhint: " + error->hint};
    const Result<Node> map = map_of_words(text);
    if (!map) return Error{map.error()};
    yaml::Document document;
    document.text = text;
    document.line_starts = {0};
    return read_map(document, *map, allow_any, list.match, list);
  }
  if (is_any(parsed) && !allow_any) {
    return Error{"`" + std::string(text) +
                 "` matches every address\nhint: write `allow_any: true` in the list if that is what you want"};
  }
  append(parsed, {0, port_of(parsed), list.match}, list);
  return visit_parsed(parsed, [](const auto& entry) { return range_text(entry.first, entry.last, entry.port); });
}

Result<std::string> entry_line_of_map(std::string_view map) {
  Diagnostics diagnostics;
  const auto document = yaml::parse_document("", std::string(map), diagnostics);
  if (!document || !diagnostics.ok() || document->root.kind != Kind::map) {
    const bool has_reason = !diagnostics.kept().empty();
    return Error{"`" + std::string(map) +
                 "` is no map: " + (has_reason ? diagnostics.kept().front().message : "as in {dst: 203.0.113.9}")};
  }
  for (const Member& member : document->root.members) {
    if (member.key.text == "entry" || member.key.text == "expires" || member.key.text == "comment") {
      return Error{"`" + member.key.text + "` stands in policy files\nhint: --ttl and --comment do this here"};
    }
  }
  ListDraft list;
  return read_map(*document, document->root, true, kNoMatch, list);
}

}  // namespace weir::control
