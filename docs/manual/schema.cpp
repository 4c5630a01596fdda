#include "docs/manual/schema.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace weir::manual {

namespace {

using Json = nlohmann::ordered_json;
using yaml::Key;
using yaml::Section;

bool is_whole_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

Json whole(std::string_view pattern) {
  return "^(" + std::string(pattern) + ")$";
}

// A value in quotes is the same value.
Json text_like(std::string_view pattern) {
  return {{"type", "string"}, {"pattern", whole(pattern)}};
}

// A word as YAML reads it.
Json value_of(std::string_view written) {
  if (is_whole_number(written)) return std::stoull(std::string(written));
  if (written == "true" || written == "false") return written == "true";
  if (written == "[]") return Json::array();
  return written;
}

Json schema_of(const Section& section);

std::vector<Json> ways_of(const Key& key) {
  std::vector<Json> ways;
  if (key.may_be(yaml::kChoice)) {
    Json words = Json::array();
    for (const std::string_view word : yaml::words_of(key.choices)) words.push_back(value_of(word));
    for (const std::string_view word : yaml::words_of(key.choices)) {
      if (!value_of(word).is_string()) words.push_back(word);
    }
    ways.push_back({{"enum", words}});
  }
  if (key.may_be(yaml::kText) && is_whole_number(key.pattern)) {
    ways.push_back({{"enum", {value_of(key.pattern), key.pattern}}});
  } else if (key.may_be(yaml::kText)) {
    // Scalars are read as texts: what YAML takes for a number is one, too.
    Json text = {{"type", {"string", "number"}}};
    if (!key.pattern.empty()) text["pattern"] = whole(key.pattern);
    ways.push_back(text);
  }
  if (key.may_be(yaml::kBoolean)) {
    ways.push_back({{"type", "boolean"}});
    ways.push_back({{"enum", {"true", "false"}}});
  }
  if (key.may_be(yaml::kInteger)) {
    ways.push_back({{"type", "integer"}, {"minimum", key.least}, {"maximum", key.most}});
    ways.push_back(text_like("[0-9]+"));
  }
  if (key.may_be(yaml::kNumber) && key.unit.empty()) {
    ways.push_back({{"type", "number"}, {"minimum", key.low}, {"maximum", key.high}});
    ways.push_back(text_like("[-+0-9.eE]+"));
  } else if (key.may_be(yaml::kNumber)) {
    ways.push_back(text_like("[0-9]+(\\.[0-9]+)?" + std::string(key.unit)));
  }
  if (key.may_be(yaml::kSize)) {
    ways.push_back({{"type", "integer"}, {"minimum", key.least}, {"maximum", key.most}});
    ways.push_back(text_like("[0-9]+(KiB|MiB|GiB|TiB)?"));
  }
  if (key.may_be(yaml::kTime)) ways.push_back(text_like("[0-9]+[smhd]"));
  if (key.may_be(yaml::kSequence)) {
    Json item = Json::object();
    const std::vector<Json> items = ways_of(*key.item);
    if (items.size() == 1) item = items.front();
    if (items.size() > 1) item["anyOf"] = items;
    ways.push_back({{"type", "array"}, {"items", item}});
  }
  if (key.may_be(yaml::kMap)) ways.push_back(schema_of(*key.section));
  // A section of which every line is a comment is left out.
  const bool has_lines = key.may_be(yaml::kMap | yaml::kSequence) && !key.is_required && !key.name.empty();
  if (has_lines) ways.push_back({{"type", "null"}});
  return ways;
}

Json schema_of_key(const Key& key) {
  Json schema = Json::object();
  if (!key.help.empty()) schema["description"] = key.help;
  if (!key.usual.empty()) schema["default"] = value_of(key.usual);
  const std::vector<Json> ways = ways_of(key);
  if (ways.size() == 1) {
    schema.update(ways.front());
  } else {
    schema["anyOf"] = ways;
  }
  return schema;
}

Json schema_of(const Section& section) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  Json properties = Json::object(), required = Json::array();
  for (const Key& key : section.keys) {
    if (key.may_be(yaml::kLater)) continue;
    properties[std::string(key.name)] = schema_of_key(key);
    if (key.is_required) required.push_back(key.name);
  }
  schema["properties"] = properties;
  if (!required.empty()) schema["required"] = required;
  if (section.is_one_of) schema["minProperties"] = schema["maxProperties"] = 1;
  return schema;
}

}  // namespace

std::string schema(std::string_view file, const Section& section) {
  Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", file}};
  schema.update(schema_of(section));
  return schema.dump(1) + "\n";
}

}  // namespace weir::manual
