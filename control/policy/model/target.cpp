#include "control/policy/model/target.h"

namespace weir::control {

namespace {
constexpr TargetTraits kTraits[kTargetKinds] = {
    // in the order of TargetKind
    {.name = "dataplane",
     .only_one = false,
     .has_workers = true,
     .has_interfaces = false,
     .keeps_snapshots = true,
     .gives_traffic = true},
    {.name = "xdp",
     .only_one = true,
     .has_workers = false,
     .has_interfaces = true,
     .keeps_snapshots = false,
     .gives_traffic = true},
};
}  // namespace

const TargetTraits& traits_of(TargetKind kind) {
  return kTraits[static_cast<size_t>(kind)];
}

TargetSpec dataplane_target(std::string socket) {
  TargetSpec spec;
  spec.name = std::move(socket);
  return spec;
}

uint8_t kinds_of(const std::vector<TargetSpec>& targets) {
  uint8_t kinds = 0;
  for (const TargetSpec& target : targets) kinds |= bit_of(target.kind);
  return kinds == 0 ? kAllKinds : kinds;
}

TargetSpec xdp_target(std::vector<std::string> interfaces, Attach attach) {
  TargetSpec spec;
  spec.kind = TargetKind::xdp;
  spec.name = "xdp:";
  const char* separator = "";
  for (const std::string& interface : interfaces) {
    spec.name += separator + interface;
    separator = ",";
  }
  spec.interfaces = std::move(interfaces);
  spec.attach = attach;
  return spec;
}

}  // namespace weir::control
