#include "control/enforce/capture/pcapng.h"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace weir::control::pcapng {

namespace {

enum BlockType : uint32_t { kSection = 0x0a0d0d0a, kInterface = 1, kStatistics = 5, kEnhancedPacket = 6 };
enum Option : uint16_t {
  kEnd = 0,
  kComment = 1,
  kSectionApplication = 4,
  kInterfaceName = 2,
  kInterfaceDescription = 3,
  kInterfaceResolution = 9,
  kInterfaceFilter = 11,
  kPacketFlags = 2,
  kPacketQueue = 6,
  kStatisticsBegin = 2,
  kStatisticsEnd = 3,
  kStatisticsReceived = 4,
  kStatisticsDropped = 5,
  kStatisticsAccepted = 6,
  kStatisticsDelivered = 8,
};

constexpr uint32_t kByteOrder = 0x1a2b3c4d;
constexpr uint64_t kUnknownLength = UINT64_MAX;
constexpr uint16_t kEthernet = 1;    // LINKTYPE_ETHERNET
constexpr char kNanoseconds = 9;     // 10^-9 s
constexpr char kLibpcapFilter = 0;   // the rest of the option is an expression
constexpr uint32_t kInbound = 0b01;  // epb_flags, bits 0 and 1
constexpr size_t kLongest = 0xffff;  // an option's value

template <class Value>
void append(std::string& file, Value value) {
  file.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void pad(std::string& file, size_t bytes) {
  file.append((4 - bytes % 4) % 4, '\0');
}

void append_option(std::string& file, uint16_t option, std::string_view value) {
  value = value.substr(0, kLongest);
  append(file, option);
  append(file, static_cast<uint16_t>(value.size()));
  file += value;
  pad(file, value.size());
}

template <class Value>
void append_number(std::string& file, uint16_t option, Value value) {
  append_option(file, option, {reinterpret_cast<const char*>(&value), sizeof value});
}

// The high half first.
std::string time_bytes(uint64_t unix_ns) {
  std::string bytes;
  append(bytes, static_cast<uint32_t>(unix_ns >> 32));
  append(bytes, static_cast<uint32_t>(unix_ns));
  return bytes;
}

// Writes type and length around what the body appends.
template <class Body>
void append_block(std::string& file, BlockType type, Body body) {
  const size_t begin = file.size();
  append(file, static_cast<uint32_t>(type));
  append(file, uint32_t{0});
  body();
  append(file, uint32_t{kEnd});  // of the options
  const auto length = static_cast<uint32_t>(file.size() - begin + sizeof(uint32_t));
  append(file, length);
  memcpy(file.data() + begin + sizeof(uint32_t), &length, sizeof length);
}

}  // namespace

void append_section(std::string& file, const std::string& program) {
  append_block(file, kSection, [&] {
    append(file, kByteOrder);
    append(file, uint16_t{1});  // version 1.0
    append(file, uint16_t{0});
    append(file, kUnknownLength);
    append_option(file, kSectionApplication, program);
  });
}

void append_interface(std::string& file, const Interface& interface) {
  append_block(file, kInterface, [&] {
    append(file, kEthernet);
    append(file, uint16_t{0});
    append(file, interface.snap_bytes);
    append_option(file, kInterfaceName, interface.name);
    append_option(file, kInterfaceDescription, interface.description);
    append_option(file, kInterfaceResolution, {&kNanoseconds, 1});
    if (!interface.filter.empty()) append_option(file, kInterfaceFilter, kLibpcapFilter + interface.filter);
  });
}

void append_packet(std::string& file, const Packet& packet) {
  append_block(file, kEnhancedPacket, [&] {
    append(file, packet.interface);
    file += time_bytes(packet.time_unix_ns);
    append(file, static_cast<uint32_t>(packet.captured.size()));
    append(file, packet.frame_bytes);
    file.append(reinterpret_cast<const char*>(packet.captured.data()), packet.captured.size());
    pad(file, packet.captured.size());
    append_option(file, kComment, packet.comment);
    append_number(file, kPacketFlags, kInbound);
    append_number(file, kPacketQueue, packet.queue);
  });
}

void append_statistics(std::string& file, uint32_t interface, const Statistics& statistics, Period period) {
  append_block(file, kStatistics, [&] {
    append(file, interface);
    file += time_bytes(period.end_unix_ns);
    append_option(file, kStatisticsBegin, time_bytes(period.begin_unix_ns));
    append_option(file, kStatisticsEnd, time_bytes(period.end_unix_ns));
    append_number(file, kStatisticsReceived, statistics.received);
    append_number(file, kStatisticsDropped, statistics.dropped);
    append_number(file, kStatisticsAccepted, statistics.accepted);
    append_number(file, kStatisticsDelivered, statistics.delivered);
  });
}

}  // namespace weir::control::pcapng
