#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/result.h"

// What `setup` writes into configuration files. Comments and the order of lines stay.
namespace weir::control::ctl {

// The policy's text with one more target, which is given as YAML: xdp: {interfaces: [eth0]}. Error: `targets` is
// written in a way that takes a person, with the line to write.
Result<std::string> with_target(const std::string& policy, const std::string& target);

// The policy's text with one more interface at the end of the first xdp target that has its interfaces in one line.
// Empty: it has no such target.
std::optional<std::string> with_interface(const std::string& policy, const std::string& interface);

// The text of dataplane-NAME.env with these PCI addresses in EAL_OPTIONS, one worker on processor 1. Error:
// EAL_OPTIONS is there, and has something else.
Result<std::string> with_ports(const std::string& env, const std::vector<std::string>& addresses);

}  // namespace weir::control::ctl
