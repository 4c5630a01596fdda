#include "control/range_text.h"

#include "control/merge.h"

namespace weir::control {
namespace {

template <class Addr>
std::string text_of(Addr first, Addr last) {
  if (first == last) return to_string(first);
  const auto hosts = static_cast<Addr>(last - first);  // a prefix: all ones, and first has zeros there
  const bool is_prefix = (hosts & static_cast<Addr>(hosts + 1)) == 0 && (first & hosts) == 0;
  if (!is_prefix) return to_string(first) + "-" + to_string(last);
  const unsigned host_bits =
      hosts == low_bits<Addr>(kAddrBits<Addr>) ? kAddrBits<Addr> : trailing_zeros(static_cast<Addr>(hosts + 1));
  return to_string(first) + "/" + std::to_string(kAddrBits<Addr> - host_bits);
}

}  // namespace

std::string range_text(Ipv4 first, Ipv4 last, uint16_t port) {
  return text_of(first, last) + (port == 0 ? "" : ":" + std::to_string(port));
}

std::string range_text(Ipv6 first, Ipv6 last, uint16_t port) {
  return port == 0 ? text_of(first, last) : "[" + text_of(first, last) + "]:" + std::to_string(port);
}

}  // namespace weir::control
