#include "common/panic.h"

#include "common/paths.h"
#include "common/wire.h"

namespace weir::wire {

Result<Fd> connect_panic(const std::string& path, int timeout_ms) {
  Result<Fd> connection = connect(panic_socket_of(path), timeout_ms);
  return connection ? std::move(connection) : connect(path, timeout_ms);
}

}  // namespace weir::wire
