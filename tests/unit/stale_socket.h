#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>

#include "common/fd.h"
#include "tests/catch.h"

// Leaves a socket file that nobody answers on, as a program that was killed does.
inline void leave_socket(const std::string& path, int type) {
  const weir::Fd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
}
