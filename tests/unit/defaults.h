#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/yaml/keys.h"

namespace weir::tests {

// What the rows of a section say holds when a key is left out, as one map: {a: 1, b: {c: 2}}. Without sequences, and
// without the keys that are named.
inline std::string defaults_of(const yaml::Section& section, const std::vector<std::string_view>& without = {}) {
  std::string text;
  for (const yaml::Key& key : section.keys) {
    if (std::find(without.begin(), without.end(), key.name) != without.end()) continue;
    const bool is_map = key.usual.empty() && key.may_be(yaml::kMap);
    const std::string value = is_map ? defaults_of(*key.section, without) : std::string(key.usual);
    if (value.empty() || value == "{}") continue;
    text += (text.empty() ? "" : ", ") + std::string(key.name) + ": " + value;
  }
  return "{" + text + "}";
}

inline const yaml::Section& section_at(const yaml::Section& section, std::string_view key) {
  const auto row = std::find_if(section.keys.begin(), section.keys.end(), [&](const auto& k) { return k.name == key; });
  return row->may_be(yaml::kSequence) ? *row->item->section : *row->section;
}

}  // namespace weir::tests
