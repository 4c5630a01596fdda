#include "dataplane/ports/packet_sockets.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

namespace weir::dataplane {

namespace {

// -1: the name is no number.
int number_of(const std::string& name) {
  int number = -1;
  std::from_chars(name.data(), name.data() + name.size(), number);
  return number;
}

bool receives_from(int fd, unsigned interface) {
  sockaddr_ll address = {};
  socklen_t size = sizeof address;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.sll_family == AF_PACKET &&
         address.sll_ifindex == static_cast<int>(interface);
}

// And the kernel forgets them.
uint64_t take_drops(int fd) {
  tpacket_stats stats = {};
  socklen_t size = sizeof stats;
  return getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size) == 0 ? stats.tp_drops : 0;
}

}  // namespace

PacketSockets::PacketSockets(unsigned interface) {
  std::vector<int> found;
  std::error_code error;
  std::filesystem::directory_iterator at("/proc/self/fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const int fd = number_of(at->path().filename().string());
    if (fd >= 0 && receives_from(fd, interface)) found.push_back(fd);
  }
  for (const int fd : found) {
    Fd own(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!own) continue;
    take_drops(own.get());
    sockets_.push_back(std::move(own));
  }
}

uint64_t PacketSockets::dropped() const {
  for (const Fd& socket : sockets_) dropped_.fetch_add(take_drops(socket.get()), std::memory_order_relaxed);
  return dropped_.load(std::memory_order_relaxed);
}

}  // namespace weir::dataplane
