#include "control/tell/web/socket.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/files.h"

namespace weir::control::web {

namespace {

constexpr int kMostWaiting = 64;  // to be accepted

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

SocketAddress socket_address(const ListenAddress& address) {
  SocketAddress made;
  if (address.is_v6) {
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    const auto bytes = to_bytes(address.v6);
    memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
    made.size = sizeof v6;
    memcpy(&made.bytes, &v6, sizeof v6);
  } else {
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    const auto bytes = to_bytes(address.v4);
    memcpy(&v4.sin_addr, bytes.data(), bytes.size());
    made.size = sizeof v4;
    memcpy(&made.bytes, &v4, sizeof v4);
  }
  return made;
}

const char* way_out(int error) {
  if (error == EADDRINUSE) return "; another program listens there: find it with `ss -ltnp`, or choose another port";
  if (error == EADDRNOTAVAIL) return "; no interface has this address: `ip address` lists them";
  if (error == EACCES) return "; ports below 1024 are for root: choose another one";
  if (error == EAFNOSUPPORT) return "; this system has no such addresses";
  return "";
}

}  // namespace

Result<Fd> listen_at(const ListenAddress& address) {
  const auto failure = [&](int error) {
    return Error{"cannot listen on " + text_of(address) + ": " + strerror(error) + way_out(error)};
  };
  Fd fd(socket(address.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failure(errno);
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // after a restart, at once
  const SocketAddress place = socket_address(address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&place.bytes), place.size) != 0) return failure(errno);
  if (listen(fd.get(), kMostWaiting) != 0) return failure(errno);
  return fd;
}

ListenAddress place_of(int socket) {
  sockaddr_storage place = {};
  socklen_t size = sizeof place;
  ListenAddress address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&place), &size) != 0) return address;
  if (place.ss_family == AF_INET6) {
    sockaddr_in6 v6 = {};
    memcpy(&v6, &place, sizeof v6);
    return {true, 0, ipv6_from_bytes(v6.sin6_addr.s6_addr), ntohs(v6.sin6_port)};
  }
  sockaddr_in v4 = {};
  memcpy(&v4, &place, sizeof v4);
  return {false, ntohl(v4.sin_addr.s_addr), 0, ntohs(v4.sin_port)};
}

}  // namespace weir::control::web
