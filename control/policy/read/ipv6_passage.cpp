#include "control/policy/read/ipv6_passage.h"

#include <algorithm>
#include <vector>

#include "control/policy/model/fields.h"

namespace weir::control {
namespace {

struct Ipv6Block {
  Ipv6 first, last;
};

constexpr Ipv6Block block(uint16_t leading, unsigned prefix_bits) {
  const Ipv6 first = Ipv6{leading} << 112;
  return {first, first | ~prefix_mask<Ipv6>(prefix_bits)};
}
constexpr Ipv6Block kLinkLocal = block(0xfe80, 10), kLinkMulticast = block(0xff02, 16);

bool covers_all_of(std::vector<Ipv6Block> blocks, const Ipv6Block& wanted) {
  std::sort(blocks.begin(), blocks.end(), [](const Ipv6Block& a, const Ipv6Block& b) { return a.first < b.first; });
  Ipv6 next = wanted.first;
  for (const Ipv6Block& one : blocks) {
    if (one.first > next) return false;
    if (one.last < next) continue;
    if (one.last >= wanted.last) return true;
    next = one.last + 1;
  }
  return false;
}

}  // namespace

Ipv6Passage ipv6_passage(const Book& lists) {
  Ipv6Passage passage;
  std::vector<Ipv6Block> any_side, as_destination;
  for (const List& list : lists) {
    if (list.action != WEIR_PASS) continue;
    const Rows<Ipv6>& rows = list.v6();
    bool has_v6 = !rows.empty();
    for (const Flow& flow : list.flows()) {
      has_v6 |= flow.family != 4;
      passage.has_neighbour_discovery |= flow.family != 4 && flow.protocol == kProtocolIcmpv6;
    }
    if (has_v6 && passage.list.empty()) passage.list = list.name;
    for (size_t row = 0; row < rows.size(); row++) {
      const Ipv6Block one = {rows.first[row], rows.last_of(row)};
      const bool is_far = one.last < kLinkLocal.first || one.first > kLinkMulticast.last;
      if (is_far || rows.port[row] != 0) continue;
      any_side.push_back(one);
      if ((rows.directions[row] & WEIR_AS_DESTINATION) != 0) as_destination.push_back(one);
    }
  }
  passage.has_neighbour_discovery |=
      covers_all_of(any_side, kLinkLocal) && covers_all_of(as_destination, kLinkMulticast);
  return passage;
}

}  // namespace weir::control
