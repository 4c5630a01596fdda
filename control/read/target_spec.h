#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "common/result.h"
#include "control/read/policy_file.h"

namespace weir::control {

// XDP on interfaces; none: the maps are kept for a program that somebody else attaches.
struct XdpTarget {
  std::vector<std::string> interfaces;  // in the order of the policy, each once
  xdp::Attach attach = xdp::Attach::any;
  bool operator==(const XdpTarget&) const = default;
};

// Who enforces: a data plane, or the XDP plane of this machine.
struct TargetSpec {
  std::string dataplane;         // path of its socket; empty: xdp
  std::optional<XdpTarget> xdp;  // at most one in a policy

  std::string name() const;  // the socket; xdp:eth0,eth1
  bool operator==(const TargetSpec&) const = default;
};

// As `--target` has it: a socket, or xdp:eth0,eth1.
Result<TargetSpec> target_of(std::string_view text);

// The sequence `targets` of a policy. Errors go to the file's diagnostics, and what has one is left out.
std::vector<TargetSpec> read_targets(const PolicyFile& file, const yaml::Node& sequence);
// The same of a policy that may be wrong anywhere: what cannot be understood is left out without a word.
std::vector<TargetSpec> find_targets(const yaml::Node& sequence);

}  // namespace weir::control
