#pragma once

#include <optional>
#include <string>

#include "common/yaml/yaml.h"
#include "control/policy/feeds/format.h"
#include "control/policy/read/policy_file.h"

namespace weir::control {

// What a list's `format` says.
struct FormatChoice {
  const feeds::Format* format = nullptr;  // null: `auto`
  std::string settings;                   // feeds::Options::settings

  std::string text() const;  // "csv(address=2,port=3)"
};

// `format: NAME` or `format: {NAME: {SETTING: VALUE, ...}}`. Empty when there was an error.
std::optional<FormatChoice> read_format(const PolicyFile& file, yaml::MapReader& list);

}  // namespace weir::control
