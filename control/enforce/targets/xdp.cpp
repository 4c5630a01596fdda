#include "control/enforce/targets/kinds.h"

// XDP on interfaces of this machine: this process is the enforcer, too, and speaks with itself.
namespace weir::control {

namespace {

// The kernel's verifier takes its time: a program that it refuses is not loaded more often.
constexpr int kLeastRetry_ms = 1000;

bool configure(Planes& planes, const std::vector<TargetSpec>& targets) {
  return planes.xdp.configure(targets.empty() ? std::nullopt : std::optional(targets.front()));
}

void connect_xdp(Planes& planes, const TargetSpec&, std::function<void(Result<Fd>)> done) {
  planes.xdp.connect(std::move(done));
}

Result<void> bypass(Planes& planes, bool on) {
  return planes.xdp.bypass(on);
}

}  // namespace

const TargetFunctions kXdpFunctions = {.configure = configure,
                                       .connect = connect_xdp,
                                       .bypass = bypass,
                                       .connect_now = nullptr,
                                       .least_retry_ms = kLeastRetry_ms,
                                       .capabilities = kXdpCapabilities};

}  // namespace weir::control
