#pragma once

#include <optional>

#include "common/yaml/yaml.h"
#include "control/policy/model/policy.h"

// What a policy says of lists beside their entries and feeds. What is wrong goes to the diagnostics, and has its
// default in the result.
namespace weir::control {

// The `guard` of a list.
Guard read_guard(yaml::MapReader section);

// `dynamic`, `max_entries` and `max_ttl`. Empty: it is not dynamic.
std::optional<Dynamic> read_dynamic(yaml::MapReader& list, bool allow_any);

uint8_t read_ipv6_aggregate(yaml::MapReader& list, bool allow_any);

// The policy's `history`.
HistorySettings read_history(yaml::MapReader section);
// The policy's `plan`.
PlanSettings read_plan(yaml::MapReader section);
// The policy's `metrics`.
MetricsSettings read_metrics(yaml::MapReader section);

}  // namespace weir::control
