#pragma once

#include <functional>
#include <vector>

#include "common/confine/capabilities.h"
#include "common/unix_socket.h"
#include "control/base/loop/loop.h"
#include "control/enforce/targets/xdp_plane.h"
#include "control/policy/model/target.h"

namespace weir::control {

// What is there once on this machine, whatever the policy names.
struct Planes {
  Planes(Loop& loop, const std::string& bpf_dir) : xdp(loop, bpf_dir) {}
  XdpPlane xdp;
};

// How targets of a kind are reached. One row each; what a kind is like otherwise: TargetTraits.
struct TargetFunctions {
  // From now on these targets of the kind; true: connections made before end. Null: each stands for itself.
  bool (*configure)(Planes& planes, const std::vector<TargetSpec>& targets);
  // A connection on which common/wire.h is spoken. Does not wait: calls back on the loop.
  void (*connect)(Planes& planes, const TargetSpec& target, std::function<void(Result<Fd>)> done);
  // The panic switch, without a message: at once, from any thread. Null: it is told by a message, on a connection of
  // its own, made by connect_now().
  Result<void> (*bypass)(Planes& planes, bool on);
  // Any thread; never waits. Null when there is bypass().
  Result<Fd> (*connect_now)(const TargetSpec& target, unix_socket::Reserve& sockets);
  int least_retry_ms;                  // between attempts to reach it
  confine::Capabilities capabilities;  // that controld needs for it
};
const TargetFunctions& functions_of(TargetKind kind);

extern const TargetFunctions kDataplaneFunctions, kXdpFunctions;  // dataplane.cpp, xdp.cpp

}  // namespace weir::control
