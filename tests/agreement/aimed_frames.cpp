#include "tests/agreement/aimed_frames.h"

#include <algorithm>
#include <bit>

namespace weir::agreement {
namespace {

using control::Flow;

constexpr uint8_t kTcpHeader = 20, kUdpHeader = 8;
constexpr uint8_t kProtoIcmp = 1, kProtoTcp = 6, kProtoUdp = 17, kProtoFragment = 44, kProtoIcmpV6 = 58;
constexpr size_t kLongest = 1500;

// What is written.
struct Aim {
  bool is_v6 = false;
  Ipv6 src = 0, dst = 0;
  unsigned protocol = kProtoUdp;
  unsigned sport = 1024, dport = 1024;
  unsigned icmp_type = 8, icmp_code = 0;
  unsigned tcp_flags = 0x02;
  unsigned dscp = 0;
  unsigned fragment = 0;  // bit of what a flow asks for: 0 none, 1 first, 2 later
  size_t length = 0;      // of the packet, where it can be so short; 0: as it comes
};

class Bytes {
 public:
  explicit Bytes(Frame& frame) : frame_(frame) {}
  void put(unsigned value, int n_bytes) {
    for (int byte = n_bytes - 1; byte >= 0; byte--) frame_.push_back(static_cast<uint8_t>(value >> 8 * byte));
  }
  void address(bool is_v6, Ipv6 address) {
    for (int byte = is_v6 ? 15 : 3; byte >= 0; byte--) frame_.push_back(static_cast<uint8_t>(address >> 8 * byte));
  }
  void zeros(size_t n) { frame_.insert(frame_.end(), n, 0); }
  size_t size() const { return frame_.size(); }
  void patch16(size_t at, size_t value) {
    frame_[at] = static_cast<uint8_t>(value >> 8);
    frame_[at + 1] = static_cast<uint8_t>(value);
  }

 private:
  Frame& frame_;
};

void put_transport(const Aim& aim, Bytes& bytes) {
  if (aim.protocol == kProtoIcmp || aim.protocol == kProtoIcmpV6) {
    bytes.put(aim.icmp_type, 1);
    bytes.put(aim.icmp_code, 1);
    bytes.zeros(kUdpHeader - 2);
    return;
  }
  bytes.put(aim.sport, 2);
  bytes.put(aim.dport, 2);
  if (aim.protocol != kProtoTcp) return bytes.zeros(kUdpHeader - 4);
  bytes.zeros(8);
  bytes.put(0x50, 1);
  bytes.put(aim.tcp_flags, 1);
  bytes.zeros(kTcpHeader - 14);
}

void write(const Aim& aim, bool with_tag, Frame& frame) {
  frame.clear();
  Bytes bytes(frame);
  bytes.zeros(12);
  if (with_tag) bytes.put(0x81000007, 4);
  bytes.put(aim.is_v6 ? 0x86dd : 0x0800, 2);
  const size_t at = bytes.size();
  constexpr unsigned kOffsetAndFlags[] = {0, 0x2000, 0x0004};  // IPv4: more fragments; behind the first one
  if (aim.is_v6) {
    bytes.put(6u << 28 | aim.dscp << 22, 4);
    bytes.put(0, 2);
    bytes.put(aim.fragment != 0 ? kProtoFragment : aim.protocol, 1);
    bytes.put(64, 1);
  } else {
    bytes.put(0x45, 1);
    bytes.put(aim.dscp << 2, 1);
    bytes.zeros(4);
    bytes.put(kOffsetAndFlags[aim.fragment], 2);
    bytes.put(64, 1);
    bytes.put(aim.protocol, 1);
    bytes.zeros(2);
  }
  bytes.address(aim.is_v6, aim.src);
  bytes.address(aim.is_v6, aim.dst);
  if (aim.is_v6 && aim.fragment != 0) {
    bytes.put(aim.protocol, 1);
    bytes.put(0, 1);
    bytes.put(aim.fragment == 1 ? 1 : 0x20, 2);
    bytes.put(7, 4);
  }
  put_transport(aim, bytes);
  const size_t wanted = std::min(aim.length, kLongest);
  if (bytes.size() - at < wanted) bytes.zeros(wanted - (bytes.size() - at));
  bytes.patch16(at + (aim.is_v6 ? 4 : 2), bytes.size() - at - (aim.is_v6 ? 40 : 0));
}

Ipv6 any_address(Choices& choices, bool is_v6) {
  if (!is_v6) return Ipv6{choices.next()};
  Ipv6 address = Ipv6{0x2a} << 120;
  for (const unsigned shift : {84, 56, 28, 0}) address |= Ipv6{choices.next() & 0x0fffffff} << shift;
  return address;
}

// At the ends of a range, in it, or beside it.
Ipv6 address_near(Choices& choices, Ipv6 first, Ipv6 last, bool is_beside) {
  if (is_beside) return choices.below(2) == 0 ? first - 1 : last + 1;
  switch (choices.below(4)) {
    case 0:
      return first;
    case 1:
      return last;
    default: {
      const Ipv6 more = last - first, offset = any_address(choices, true);
      return first + (more == ~Ipv6{0} ? offset : offset % (more + 1));
    }
  }
}

uint16_t port_in(Choices& choices, const control::PortRange& range) {
  const unsigned n = unsigned{range.last} - range.first + 1;
  return static_cast<uint16_t>(range.first + choices.below(n));
}

// One of the values that a mask allows.
unsigned value_of(Choices& choices, uint64_t values) {
  for (auto skip = choices.below(static_cast<uint32_t>(std::max(1, std::popcount(values)))); skip > 0; skip--) {
    values &= values - 1;
  }
  return static_cast<unsigned>(std::countr_zero(values)) & 63;
}

template <class Addr>
void aim_at_entry(Choices& choices, const control::Entry<Addr>& entry, Frame& frame) {
  Aim aim;
  aim.is_v6 = sizeof(Addr) == sizeof(Ipv6);
  const unsigned miss = choices.below(12);  // 0: beside it; 1: on the other side, perhaps; 2: another port
  bool as_source = entry.directions == WEIR_AS_SOURCE || (entry.directions != WEIR_AS_DESTINATION && choices.one_in(2));
  if (miss == 1) as_source = !as_source;
  const Ipv6 address = address_near(choices, entry.first, entry.last, miss == 0);
  const Ipv6 other =
      choices.one_in(6) ? address_near(choices, entry.first, entry.last, false) : any_address(choices, aim.is_v6);
  (as_source ? aim.src : aim.dst) = address;
  (as_source ? aim.dst : aim.src) = other;
  if (entry.port != 0 && miss != 2) (as_source ? aim.sport : aim.dport) = entry.port;
  if (entry.port != 0 && choices.one_in(4)) (as_source ? aim.dport : aim.sport) = entry.port;
  constexpr unsigned kProtocols[] = {kProtoUdp, kProtoTcp, kProtoTcp, 132, kProtoIcmp};
  if (choices.below(2) == 0) aim.protocol = choices.of(kProtocols);
  if (choices.one_in(24)) aim.fragment = 1 + choices.below(2);
  write(aim, choices.one_in(8), frame);
}

void answer_fields(Choices& choices, const Flow& flow, Aim& aim) {
  if (flow.protocol) {
    aim.protocol = *flow.protocol;
  } else if (flow.icmp_type || flow.icmp_code) {
    aim.protocol = aim.is_v6 ? kProtoIcmpV6 : kProtoIcmp;
  } else if (flow.tcp_flags) {
    aim.protocol = kProtoTcp;
  }
  if (flow.sport) aim.sport = port_in(choices, *flow.sport);
  if (flow.dport) aim.dport = port_in(choices, *flow.dport);
  if (flow.icmp_type) aim.icmp_type = *flow.icmp_type;
  if (flow.icmp_code) aim.icmp_code = *flow.icmp_code;
  if (flow.tcp_flags) aim.tcp_flags = flow.tcp_flags->set | (choices.next() & ~unsigned{flow.tcp_flags->mask} & 0xff);
  if (flow.dscp) aim.dscp = value_of(choices, flow.dscp->values);
  if (flow.fragment) aim.fragment = std::min(2u, value_of(choices, flow.fragment->values));
  if (flow.length) {
    const uint32_t last = std::min<uint32_t>(flow.length->last, kLongest);
    aim.length = flow.length->first + choices.below(last < flow.length->first ? 1 : last - flow.length->first + 1);
  }
}

// One field is another one than is asked for, perhaps.
void spoil(Choices& choices, Aim& aim) {
  switch (choices.below(10)) {
    case 0:
      aim.sport++;
      break;
    case 1:
      aim.dport--;
      break;
    case 2:
      aim.protocol = aim.protocol == kProtoTcp ? kProtoUdp : kProtoTcp;
      break;
    case 3:
      aim.icmp_type ^= 1;
      break;
    case 4:
      aim.tcp_flags ^= 1u << choices.below(8);
      break;
    case 5:
      aim.length += 1;
      break;
    case 6:
      aim.dscp = (aim.dscp + 1) & 63;
      break;
    case 7:
      aim.fragment = (aim.fragment + 1) % 3;
      break;
    case 8:
      std::swap(aim.src, aim.dst);
      break;
    default:
      aim.dst++;
  }
}

}  // namespace

void aim_at(Choices& choices, const control::Entry<Ipv4>& entry, Frame& frame) {
  aim_at_entry(choices, entry, frame);
}

void aim_at(Choices& choices, const control::Entry<Ipv6>& entry, Frame& frame) {
  aim_at_entry(choices, entry, frame);
}

void aim_at(Choices& choices, const Flow& flow, Frame& frame) {
  Aim aim;
  aim.is_v6 = flow.family == 6 || (flow.family == 0 && choices.below(2) == 1);
  const auto side = [&](const std::optional<control::AddressRange>& range) {
    return range ? address_near(choices, range->first, range->last, false) : any_address(choices, aim.is_v6);
  };
  aim.src = side(flow.src);
  aim.dst = side(flow.dst);
  answer_fields(choices, flow, aim);
  if (choices.one_in(3)) spoil(choices, aim);
  write(aim, choices.one_in(8), frame);
}

void make_stranger(Choices& choices, Frame& frame) {
  Aim aim;
  aim.is_v6 = choices.below(2) == 1;
  aim.src = any_address(choices, aim.is_v6);
  aim.dst = any_address(choices, aim.is_v6);
  write(aim, false, frame);
}

}  // namespace weir::agreement
