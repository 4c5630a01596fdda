#include "common/panic.h"

#include "common/paths.h"
#include "common/wire.h"

namespace weir::wire {

Result<Fd> connect_panic(const std::string& path, int timeout_ms) {
  Result<Fd> connection = connect(panic_socket_of(path), timeout_ms);
  return connection ? std::move(connection) : connect(path, timeout_ms);
}

Result<Fd> connect_panic(const std::string& path, unix_socket::Reserve& sockets) {
  Result<Fd> connection = sockets.connect(panic_socket_of(path));
  return connection ? std::move(connection) : sockets.connect(path);
}

}  // namespace weir::wire
