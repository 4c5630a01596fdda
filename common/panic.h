#pragma once

#include "common/fd.h"
#include "common/result.h"
#include "common/unix_socket.h"

namespace weir::wire {

// For an order of the panic switch to the enforcer of this socket: a connection to the socket that it keeps for nothing
// else (panic_socket_of), where no publication holds it up; to the other one when there is none. As wire::connect.
Result<Fd> connect_panic(const std::string& path, int timeout_ms);
Result<Fd> connect_panic(const std::string& path, unix_socket::Reserve& sockets);

}  // namespace weir::wire
