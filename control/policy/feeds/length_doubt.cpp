#include "control/policy/feeds/length_doubt.h"

#include "common/ip.h"
#include "control/policy/feeds/take.h"

namespace weir::control::feeds {
namespace {

struct Weighed {
  bool fits = false;        // no bit of the address lies behind the length
  bool is_network = false;  // and it ends in so many zeros that it is hardly a host
};

template <class Addr>
Weighed weigh(Addr address, unsigned length, Addr last_bits) {
  if (length > kAddrBits<Addr> || (address & static_cast<Addr>(~prefix_mask<Addr>(length))) != 0) return {};
  return {true, length < kAddrBits<Addr> && (address & last_bits) == 0};
}

}  // namespace

void LengthDoubt::look(uint32_t line, std::string_view address, std::string_view beside) {
  constexpr unsigned kNone = 1000;  // whatever has more digits than a prefix length
  std::string_view digits = beside;
  if (digits.starts_with('/')) digits.remove_prefix(1);
  if (!is_number(digits)) return;
  const unsigned length = is_length(digits) ? static_cast<unsigned>(std::stoul(std::string(digits))) : kNone;
  Weighed weighed;
  if (const auto v4 = parse_ipv4(address)) {
    weighed = weigh<Ipv4>(*v4, length, 0xff);
  } else if (const auto v6 = parse_ipv6(address)) {
    weighed = weigh<Ipv6>(*v6, length, ~uint64_t{0});
  } else {
    return;  // a prefix, or with a port
  }
  (weighed.fits ? fits_ : misfits_)++;
  if (!weighed.is_network || line_ != 0) return;
  line_ = line;
  address_ = address;
  number_ = beside;
}

}  // namespace weir::control::feeds
