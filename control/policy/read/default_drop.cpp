#include "control/policy/read/default_drop.h"

#include <algorithm>
#include <string>
#include <vector>

#include "control/policy/model/fields.h"
#include "control/policy/model/search.h"

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

struct Ipv6Passage {
  bool has_neighbour_discovery = false;
  std::string list;  // the first pass list with an IPv6 address; empty: there is none
};

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

// One entry of a pass list holds the whole range.
template <class Addr>
bool is_passed(const Book& lists, const Entry<Addr>& range) {
  return std::any_of(lists.begin(), lists.end(), [&](const List& list) {
    if (list.action != WEIR_PASS) return false;
    bool found = false;
    const Rows<Addr>& rows = rows_of<Addr>(list);
    visit_rows(rows, range.first, [&](size_t row) { found |= rows.last_of(row) >= range.last && rows.port[row] == 0; });
    return found;
  });
}

}  // namespace

std::optional<Complaint> ends_ipv6(const Book& lists) {
  const Ipv6Passage passage = ipv6_passage(lists);
  if (passage.has_neighbour_discovery) return std::nullopt;
  const std::string why = passage.list.empty()
                              ? "no pass list names an IPv6 address: all IPv6 ends, neighbour discovery with it"
                              : "list `" + passage.list +
                                    "` passes IPv6 without its neighbour discovery: it ends when neighbours forget "
                                    "each other";
  return Complaint{"with `default: drop`, " + why,
                   "add {name: neighbours, action: pass, match: either, entries: [\"fe80::/10\", \"ff02::/16\"]}"};
}

std::optional<Complaint> drops_own(const Book& lists, const ListDraft& own) {
  const auto are_passed = [&](const auto& ranges) {
    return std::all_of(ranges.begin(), ranges.end(), [&](const auto& range) { return is_passed(lists, range); });
  };
  if (are_passed(own.v4) && are_passed(own.v6)) return std::nullopt;
  return Complaint{
      "with `default: drop`, packets to and from `own` addresses drop unless a pass list matches them: `own` "
      "is cut out of drop lists, and passes nothing",
      "add a list with the same entries, `action: pass` and `match: either`"};
}

}  // namespace weir::control
