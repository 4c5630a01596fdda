#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "common/yaml/keys.h"
#include "common/yaml/yaml.h"
#include "control/policy/feeds/format.h"
#include "control/policy/model/field_names.h"

// This file knows the keys of weir.yaml, and tells where its errors stand.
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

// The keys of weir.yaml, a row each. Those of an entry are made of the table of fields (control/policy/model/fields.h),
// those of `format` of the table of formats.

const yaml::Section& policy_section();
const yaml::Section& target_section();
const yaml::Section& entry_section();                              // an entry that is a map
const yaml::Section& format_section(const feeds::Format& format);  // its settings

}  // namespace weir::control
