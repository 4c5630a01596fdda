#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

// Blocks of a pcapng file (draft-ietf-opsawg-pcapng), little endian, appended to a buffer. libpcap reads the format and
// does not write it. Interfaces are Ethernet, times are nanoseconds since 1970.
namespace weir::control::pcapng {

void append_section(std::string& file, const std::string& program);

struct Interface {
  std::string name;
  std::string description;
  std::string filter;  // libpcap's expression; empty: none
  uint32_t snap_bytes;
};
void append_interface(std::string& file, const Interface& interface);

struct Packet {
  uint32_t interface;  // by place in the file, from 0
  uint64_t time_unix_ns;
  std::span<const std::byte> captured;
  uint32_t frame_bytes;
  uint32_t queue;
  std::string comment;
};
void append_packet(std::string& file, const Packet& packet);  // received, not sent

struct Statistics {
  uint64_t received = 0, dropped = 0, accepted = 0, delivered = 0;  // isb_ifrecv, ifdrop, filteraccept, usrdeliv
};
struct Period {
  uint64_t begin_unix_ns, end_unix_ns;
};
void append_statistics(std::string& file, uint32_t interface, const Statistics& statistics, Period period);
constexpr size_t kStatisticsBytes = 12 + 12 + 6 * 12 + 4;  // of one interface

}  // namespace weir::control::pcapng
