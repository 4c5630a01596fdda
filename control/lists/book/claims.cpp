#include "control/lists/book/claims.h"

#include <algorithm>
#include <tuple>

#include "control/policy/model/flow_condition.h"
#include "control/policy/model/packet.h"
#include "control/policy/model/range_text.h"
#include "control/policy/model/search.h"

namespace weir::control {
namespace {

template <class Addr>
constexpr uint8_t kFamily = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;

template <class Addr>
uint8_t directions_of(const Entry<Addr>& entry) {
  return entry.sides();
}
uint8_t directions_of(const Flow& flow) {
  return static_cast<uint8_t>((flow.src ? WEIR_AS_SOURCE : 0) | (flow.dst ? WEIR_AS_DESTINATION : 0));
}

template <class Entry>
Origin origin_of(const List& list, const Entry& entry) {
  Origin origin{list.name, list.file_of(entry.source), entry.line, shown_text(entry), directions_of(entry), true};
  if (entry.source == 0) origin.comment = comment_of(list, entry.line, origin.entry);
  origin.source = entry.source;
  origin.value = entry;
  return origin;
}

bool is_live(uint32_t expires, uint64_t now) {
  return expires == kNever || now < expires;
}

bool names(const Flow& flow, uint8_t family, Ipv6 address) {
  const auto on = [&](const std::optional<AddressRange>& range) {
    return range && range->first <= address && address <= range->last;
  };
  if (flow.family != 0 && flow.family != family) return false;
  return (!flow.src && !flow.dst) || on(flow.src) || on(flow.dst);
}

// In the order in which they are written.
template <class Addr>
void sort_by_line(std::vector<Entry<Addr>>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry<Addr>& a, const Entry<Addr>& b) {
    return std::tie(a.source, a.line) < std::tie(b.source, b.line);
  });
}

template <class Addr>
AddressClaims claims_of_address(const Book& book, Addr address, uint16_t port, uint64_t now) {
  AddressClaims claims;
  std::vector<Origin> conditional;
  for (const List& list : book) {
    std::vector<Entry<Addr>> entries;
    const Rows<Addr>& rows = rows_of<Addr>(list);
    visit_rows(rows, address, [&](size_t row) { entries.push_back(rows[row]); });
    sort_by_line(entries);
    for (const Entry<Addr>& entry : entries) {
      if (entry.port != 0 && entry.port != port) {
        if (port != 0) continue;
        claims.of_ports.push_back(origin_of(list, entry));
        claims.of_ports.back().alone = false;
      } else {
        std::vector<Origin>& kind = entry.expires == kNever ? claims.origins : conditional;
        kind.push_back(origin_of(list, entry));
        kind.back().alone = is_live(entry.expires, now);
      }
    }
    for (const Flow& flow : list.flows()) {
      if (!names(flow, kFamily<Addr>, address)) continue;
      conditional.push_back(origin_of(list, flow));
      conditional.back().alone = false;
    }
  }
  claims.origins.insert(claims.origins.end(), std::make_move_iterator(conditional.begin()),
                        std::make_move_iterator(conditional.end()));
  return claims;
}

template <class Addr>
OwnClaims own_claims(const Book& book, Addr address, uint8_t directions) {
  OwnClaims claims;
  const auto find = [&](const Rows<Addr>& rows, auto add) {
    std::vector<Entry<Addr>> entries;
    visit_rows(rows, address, [&](size_t row) { entries.push_back(rows[row]); });
    sort_by_line(entries);
    for (const Entry<Addr>& entry : entries) add(entry);
  };
  for (const List& list : book) {
    if (list.own == nullptr) continue;
    if (claims.own.empty()) {  // all lists have the same
      find(rows_of<Addr>(*list.own->entries), [&](const Entry<Addr>& entry) {
        claims.own.push_back(
            {"policy.own", list.own->file_of(entry.source), entry.line, shown_text(entry), directions});
      });
    }
    if (claims.own.empty()) break;
    find(rows_of<Addr>(*list.as_written()), [&](const Entry<Addr>& entry) {
      if ((entry.directions & kNamesSide) == 0 && (entry.sides() & directions) != 0) {
        claims.cut.push_back(origin_of(list, entry));
      }
    });
  }
  return claims;
}

// visit(entry, row), each row once, however many sides match it.
template <class Addr, class Visit>
void visit_matching_rows(const List& list, const weir_packet& packet, uint64_t now, Visit visit) {
  const Rows<Addr>& rows = rows_of<Addr>(list);
  const auto on_side = [&](const Entry<Addr>& entry, weir_side side) {
    const uint8_t direction = side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    const Addr address = address_of<Addr>(packet, side);
    return (entry.directions & direction) != 0 && entry.first <= address && address <= entry.last &&
           (entry.port == 0 || entry.port == port_of(packet, side));
  };
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    visit_rows(rows, address_of<Addr>(packet, side), [&](size_t row) {
      const Entry<Addr> entry = rows[row];
      if (!is_live(entry.expires, now) || !on_side(entry, side)) return;
      if (side == WEIR_SIDE_DESTINATION && on_side(entry, WEIR_SIDE_SOURCE)) return;  // visited already
      visit(entry, row);
    });
  }
}

// visit(flow, index)
template <class Visit>
void visit_matching_flows(const List& list, const weir_packet& packet, uint64_t now, Visit visit) {
  for (size_t i = 0; i < list.flows().size(); i++) {
    const Flow& flow = list.flows()[i];
    if (flow.family != 0 && flow.family != packet.family) continue;
    const weir_residual condition = condition_of(flow);
    if (residual_holds(condition, packet, now)) visit(flow, i);
  }
}

// Everything of the list that matches the packet: visit(Entry or Flow, its place among them).
template <class Visit>
void visit_matching(const List& list, const weir_packet& packet, uint64_t now, Visit visit) {
  if (packet.family == 4) visit_matching_rows<Ipv4>(list, packet, now, visit);
  if (packet.family == 6) visit_matching_rows<Ipv6>(list, packet, now, visit);
  visit_matching_flows(list, packet, now, visit);
}

using WrittenAt = std::pair<uint8_t, uint32_t>;  // source, line

template <class Addr>
WrittenAt written_at(const Entry<Addr>& entry) {
  return {entry.source, entry.line};
}
WrittenAt written_at(const Flow& flow) {
  return {flow.source, flow.line};
}

}  // namespace

std::string comment_of(const List& list, uint32_t line, const std::string& shown) {
  const std::vector<EntryComment>& comments = list.content->comments;
  auto at = std::lower_bound(comments.begin(), comments.end(), line,
                             [](const EntryComment& comment, uint32_t wanted) { return comment.line < wanted; });
  while (at != comments.end() && at->line == line && at->entry != shown) ++at;
  return at != comments.end() && at->line == line ? at->text : "";
}

AddressClaims claims_of(const Book& book, Ipv4 address, uint16_t port, uint64_t now) {
  return claims_of_address(book, address, port, now);
}

AddressClaims claims_of(const Book& book, Ipv6 address, uint16_t port, uint64_t now) {
  return claims_of_address(book, address, port, now);
}

std::vector<Origin> claims_of(const Book& book, const weir_packet& packet, uint64_t now) {
  std::vector<Origin> claims;
  for (const List& list : book) {
    std::vector<std::pair<WrittenAt, Origin>> found;
    visit_matching(list, packet, now,
                   [&](const auto& entry, size_t) { found.emplace_back(written_at(entry), origin_of(list, entry)); });
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [at, origin] : found) claims.push_back(std::move(origin));
  }
  return claims;
}

OwnClaims own_claims_of(const Book& book, Ipv4 address, uint8_t directions) {
  return own_claims(book, address, directions);
}

OwnClaims own_claims_of(const Book& book, Ipv6 address, uint8_t directions) {
  return own_claims(book, address, directions);
}

OwnClaims own_claims_of(const Book& book, const weir_packet& packet) {
  OwnClaims all;
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    const uint8_t direction = side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
    OwnClaims of_side;
    if (packet.family == 4) of_side = own_claims(book, address_of<Ipv4>(packet, side), direction);
    if (packet.family == 6) of_side = own_claims(book, address_of<Ipv6>(packet, side), direction);
    std::move(of_side.own.begin(), of_side.own.end(), std::back_inserter(all.own));
    std::move(of_side.cut.begin(), of_side.cut.end(), std::back_inserter(all.cut));
  }
  return all;
}

std::vector<uint64_t> entries_that_match(const List& list, const weir_packet& packet, uint64_t now) {
  std::vector<uint64_t> found;
  const auto take_from = [&](uint64_t first) {
    return [&found, first](const auto&, size_t place) { found.push_back(first + place); };
  };
  if (packet.family == 4) visit_matching_rows<Ipv4>(list, packet, now, take_from(0));
  if (packet.family == 6) visit_matching_rows<Ipv6>(list, packet, now, take_from(list.v4().size()));
  visit_matching_flows(list, packet, now, take_from(list.v4().size() + list.v6().size()));
  return found;
}

std::optional<Origin> first_claim(const Book& book, std::string_view name, const weir_packet& packet, uint64_t now) {
  const auto list = std::find_if(book.begin(), book.end(), [&](const List& one) { return one.name == name; });
  if (list == book.end()) return std::nullopt;
  std::optional<Origin> first;
  WrittenAt first_at;
  visit_matching(*list, packet, now, [&](const auto& entry, size_t) {
    const WrittenAt at = written_at(entry);
    if (first && first_at <= at) return;
    first_at = at;
    first = origin_of(*list, entry);
  });
  return first;
}

}  // namespace weir::control
