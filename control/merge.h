#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "common/ip.h"
#include "control/policy.h"
#include "control/rule_book.h"

// merge: the entries of all lists become prefixes, each with the rule of all lists that hold it. Nothing is taken
// away for being nested: a lookup unites what every shape answers, so a host inside a listed network keeps both lists.
namespace weir::control {

// The prefix's length is the table that holds it.
template <class Addr>
struct RuledPrefix {
  Addr address;
  uint32_t rule;
  uint16_t port;  // 0 = any

  bool same_key(const RuledPrefix& other) const { return address == other.address && port == other.port; }
  bool before(const RuledPrefix& other) const {
    return address != other.address ? address < other.address : port < other.port;
  }
};

// [length]: sorted by (address, port), each pair once.
template <class Addr>
using PrefixesByLength = std::array<std::vector<RuledPrefix<Addr>>, kAddrBits<Addr> + 1>;

template <class Addr>
struct MergedFamily {
  PrefixesByLength<Addr> any_port;
  PrefixesByLength<Addr> one_port;
};

struct Merged {
  RuleBook book;
  MergedFamily<Ipv4> v4;
  MergedFamily<Ipv6> v6;
};

Merged merge(const Policy& policy);

// Addr's lowest `count` (0..width) bits.
template <class Addr>
constexpr Addr low_bits(unsigned count) {
  return static_cast<Addr>(~prefix_mask<Addr>(kAddrBits<Addr> - count));
}

template <class Addr>
constexpr unsigned trailing_zeros(Addr address) {
  if constexpr (sizeof(Addr) <= 8) {
    return static_cast<unsigned>(std::countr_zero(address));
  } else {
    const auto low = static_cast<uint64_t>(address);
    return static_cast<unsigned>(low != 0 ? std::countr_zero(low)
                                          : 64 + std::countr_zero(static_cast<uint64_t>(address >> 64)));
  }
}

// The fewest prefixes that cover first..last exactly, ascending: visit(address, prefix_bits). At most twice the
// address width of them.
template <class Addr, class Visit>
void split_range(Addr first, Addr last, Visit visit) {
  for (;;) {
    unsigned host_bits = trailing_zeros(first);  // the largest block that may start here, then shrunk to fit
    while (static_cast<Addr>(first | low_bits<Addr>(host_bits)) > last) host_bits--;
    visit(first, kAddrBits<Addr> - host_bits);
    const Addr block_end = static_cast<Addr>(first | low_bits<Addr>(host_bits));
    if (block_end == last) return;
    first = static_cast<Addr>(block_end + 1);
  }
}

}  // namespace weir::control
