#include "common/ip.h"

#include <arpa/inet.h>

#include <cstring>

namespace weir {

std::optional<Ipv4> parse_ipv4(std::string_view text) {
  uint32_t address = 0;
  size_t at = 0;
  for (int octet = 0; octet < 4; octet++) {
    if (octet != 0 && (at >= text.size() || text[at++] != '.')) return std::nullopt;
    const size_t begin = at;
    uint32_t value = 0;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && at - begin < 3) {
      value = value * 10 + static_cast<uint32_t>(text[at++] - '0');
    }
    const size_t digits = at - begin;
    if (digits == 0 || value > 255 || (digits > 1 && text[begin] == '0')) return std::nullopt;
    address = address << 8 | value;
  }
  if (at != text.size()) return std::nullopt;
  return address;
}

std::optional<Ipv6> parse_ipv6(std::string_view text) {
  char terminated[INET6_ADDRSTRLEN];
  if (text.size() >= sizeof terminated || text.find('\0') != std::string_view::npos) return std::nullopt;
  memcpy(terminated, text.data(), text.size());
  terminated[text.size()] = '\0';
  uint8_t bytes[16];
  if (inet_pton(AF_INET6, terminated, bytes) != 1) return std::nullopt;
  return ipv6_from_bytes(bytes);
}

bool is_ipv4_mapped(Ipv6 address) {
  return address >> 32 == 0xffffu;  // all 96 leading bits
}

std::string to_string(Ipv4 address) {
  char text[INET_ADDRSTRLEN];
  return inet_ntop(AF_INET, to_bytes(address).data(), text, sizeof text);
}

std::string to_string(Ipv6 address) {
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, to_bytes(address).data(), text, sizeof text);
}

std::array<uint8_t, 4> to_bytes(Ipv4 address) {
  std::array<uint8_t, 4> bytes;
  for (int i = 3; i >= 0; i--, address >>= 8) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(address);
  return bytes;
}

std::array<uint8_t, 16> to_bytes(Ipv6 address) {
  std::array<uint8_t, 16> bytes;
  for (int i = 15; i >= 0; i--, address >>= 8) bytes[static_cast<size_t>(i)] = static_cast<uint8_t>(address);
  return bytes;
}

Ipv4 ipv4_from_bytes(const uint8_t bytes[4]) {
  Ipv4 address = 0;
  for (int i = 0; i < 4; i++) address = address << 8 | bytes[i];
  return address;
}

Ipv6 ipv6_from_bytes(const uint8_t bytes[16]) {
  Ipv6 address = 0;
  for (int i = 0; i < 16; i++) address = address << 8 | bytes[i];
  return address;
}

}  // namespace weir
