#pragma once

#include "control/policy/model/policy.h"
#include "control/policy/read/policy_file.h"

// The entries of a policy file: YAML nodes -> Entry<Addr> and Flow.
namespace weir::control {

// Appends the entries of a list: texts, and maps with named fields.
void read_entries(const PolicyFile& file, const yaml::Node& entries, bool allow_any, ListDraft& list);

// Appends `policy.own`: addresses, prefixes and ranges, as source and destination.
void read_own_entries(const PolicyFile& file, const yaml::Node& entries, ListDraft& list);

// Appends `filter.canaries`: single addresses.
void read_canaries(const PolicyFile& file, const yaml::Node& canaries, std::vector<Canary>& found);

}  // namespace weir::control
