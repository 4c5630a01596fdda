#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/yaml/yaml.h"
#include "control/policy/model/field_names.h"

namespace weir::control {

// A parsed policy file, where its diagnostics go, and when it is read.
struct PolicyFile {
  const yaml::Document& document;
  Diagnostics& diagnostics;
  uint64_t now;  // Unix seconds

  void error(const yaml::Node& at, std::string message, std::string hint) const;
  void warning(const yaml::Node& at, std::string message, std::string hint) const;
};

std::string quoted(const std::string& text);  // `text`

// The mask that a sequence of names says, each of them once. what: one of them in errors, e.g. "a TCP flag". Empty
// when there was an error.
std::optional<uint8_t> read_names(const PolicyFile& file, const yaml::Node& sequence, std::span<const NamedBit> names,
                                  const char* what);

}  // namespace weir::control
