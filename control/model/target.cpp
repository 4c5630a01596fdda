#include "control/model/target.h"

namespace weir::control {

std::string TargetSpec::name() const {
  if (!xdp) return dataplane;
  std::string name = "xdp:";
  const char* separator = "";
  for (const std::string& interface : xdp->interfaces) {
    name += separator + interface;
    separator = ",";
  }
  return name;
}

}  // namespace weir::control
