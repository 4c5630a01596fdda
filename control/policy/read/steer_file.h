#pragma once

#include <optional>
#include <string>

#include "bpf/program/steer.h"
#include "common/diagnostic.h"
#include "common/yaml/keys.h"

// These functions read steer.yaml, whose keys stand here, too.
namespace weir::control {

// The keys of steer.yaml, a row each.

extern const yaml::Section kSteerSection;
extern const yaml::Section kSteerRuleSection;  // one of its rules

// steer.yaml: which frames go to the data plane, and which stay in the kernel (configs/steer.yaml is its manual by
// example, docs/operate/steering.md its reference).

// The rules as the steering programs read them, in file order; counts and `since` are 0. Empty when there were errors.
std::optional<weir_steering> read_steer_file(const std::string& path, Diagnostics& diagnostics);
// The same from memory.
std::optional<weir_steering> parse_steer_file(std::string path, std::string text, Diagnostics& diagnostics);

// What a rule asks, as one line: `dst 203.0.113.0/24 tcp dport 80-90`, `any IPv6 packet`.
std::string rule_text(const weir_steer_rule& rule);
const char* steer_to_name(uint8_t to);  // worker | kernel

// Every packet that `narrow` takes, `wide` takes, too.
bool covers(const weir_steer_rule& wide, const weir_steer_rule& narrow);

}  // namespace weir::control
