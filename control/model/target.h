#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::control {

// How XDP is attached to an interface: any = native (in the driver) where that works, else generic (behind it).
enum class Attach : uint8_t { any, native, generic };

// XDP on interfaces; none: the maps are kept for a program that somebody else attaches.
struct XdpTarget {
  std::vector<std::string> interfaces;  // in the order of the policy, each once
  Attach attach = Attach::any;
  bool operator==(const XdpTarget&) const = default;
};

// Who enforces: a data plane, or the XDP plane of this machine.
struct TargetSpec {
  std::string dataplane;         // path of its socket; empty: xdp
  std::optional<XdpTarget> xdp;  // at most one in a policy

  std::string name() const;  // the socket; xdp:eth0,eth1
  bool operator==(const TargetSpec&) const = default;
};

}  // namespace weir::control
