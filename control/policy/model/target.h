#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weir::control {

// Kinds of what enforces: a data plane, or the XDP plane of this machine.
enum class TargetKind : uint8_t { dataplane, xdp };
constexpr size_t kTargetKinds = 2;
constexpr uint8_t kAllKinds = (1 << kTargetKinds) - 1;  // as a mask: bit 1 << TargetKind each
constexpr uint8_t bit_of(TargetKind kind) {
  return static_cast<uint8_t>(1 << static_cast<unsigned>(kind));
}

// What a kind is like. How it is written in YAML: control/policy/read/target_spec.cpp; how it is reached:
// control/enforce/targets/.
struct TargetTraits {
  const char* name;      // as the policy has it
  bool only_one;         // in a policy
  bool has_workers;      // that measure themselves
  bool has_interfaces;   // each attached or not
  bool keeps_snapshots;  // what it enforces is on a disk of its own when it acknowledges
  bool gives_traffic;    // samples of all frames
};
const TargetTraits& traits_of(TargetKind kind);

// How XDP is attached to an interface: any = native (in the driver) where that works, else generic (behind it).
enum class Attach : uint8_t { any, native, generic };
constexpr const char* kAttachNames[] = {"auto", "native", "generic"};  // in the order of Attach

// One target: plain data.
struct TargetSpec {
  TargetKind kind = TargetKind::dataplane;
  std::string name;                     // as users see it: the path of a socket; xdp:eth0,eth1
  std::vector<std::string> interfaces;  // xdp: in the order of the policy, each once; none: the maps are kept for a
                                        // program that somebody else attaches
  Attach attach = Attach::any;          // xdp
  bool operator==(const TargetSpec&) const = default;
};
TargetSpec dataplane_target(std::string socket);
TargetSpec xdp_target(std::vector<std::string> interfaces, Attach attach);
// Returns the mask of their kinds. Without a target it returns every kind: somebody may enforce the policy later.
uint8_t kinds_of(const std::vector<TargetSpec>& targets);

}  // namespace weir::control
