#pragma once

#include <string>

#include "common/yaml.h"
#include "control/policy.h"

// The entries of a policy file: YAML nodes -> Entry<Addr>.
namespace weir::control {

// A parsed policy file and where its diagnostics go.
struct PolicyFile {
  const yaml::Document& document;
  Diagnostics& diagnostics;

  void error(const yaml::Node& at, std::string message, std::string hint) const;
  void warning(const yaml::Node& at, std::string message, std::string hint) const;
};

// Appends the entries of a list: texts, and maps with named fields.
void read_entries(const PolicyFile& file, const yaml::Node& entries, bool allow_any, List& list);

// Appends `policy.own`: addresses, prefixes and ranges, as source and destination.
void read_own_entries(const PolicyFile& file, const yaml::Node& entries, List& list);

// Appends `filter.canaries`: single addresses.
void read_canaries(const PolicyFile& file, const yaml::Node& canaries, std::vector<Canary>& found);

}  // namespace weir::control
