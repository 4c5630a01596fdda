#include "control/enforce/targets/kinds.h"

namespace weir::control {

namespace {
constexpr const TargetFunctions* kFunctions[kTargetKinds] = {&kDataplaneFunctions, &kXdpFunctions};  // as TargetKind
}  // namespace

const TargetFunctions& functions_of(TargetKind kind) {
  return *kFunctions[static_cast<size_t>(kind)];
}

}  // namespace weir::control
