#include "common/panic.h"
#include "common/wire.h"
#include "control/enforce/targets/kinds.h"

// A data plane: a program of its own, behind a Unix socket.
namespace weir::control {

namespace {

Result<Fd> connect_now(const TargetSpec& target, unix_socket::Reserve& sockets) {
  return wire::connect_panic(target.name, sockets);
}

void connect(Planes&, const TargetSpec& target, std::function<void(Result<Fd>)> done) {
  done(wire::connect(target.name, 0));
}

}  // namespace

const TargetFunctions kDataplaneFunctions = {.configure = nullptr,
                                             .connect = connect,
                                             .bypass = nullptr,
                                             .connect_now = connect_now,
                                             .least_retry_ms = 0,
                                             .capabilities = 0};

}  // namespace weir::control
