#include "control/lists/book/holders.h"

#include <fmt/format.h>

#include "control/policy/model/range_text.h"

namespace weir::control {
namespace {

std::string placed(const std::string& entry, const std::string& file, uint32_t line) {
  return fmt::format("{} ({})", entry, line == 0 ? file : fmt::format("{}:{}", file, line));
}

template <class Addr>
std::string holder_text(const Rows<Addr>& rows, const Entry<Addr>& wanted, const HolderSearch& search,
                        const auto& files) {
  const std::optional<Entry<Addr>> found = holder_among(rows, wanted, search);
  if (!found) return "";
  return placed(range_text(found->first, found->last, found->port), files.file_of(found->source), found->line);
}

// Addresses of the list that hold one side of the flow.
std::string side_holder_of(const List& list, const Flow& wanted, const HolderSearch& search) {
  const std::pair<std::optional<AddressRange>, uint8_t> sides[] = {{wanted.src, WEIR_AS_SOURCE},
                                                                   {wanted.dst, WEIR_AS_DESTINATION}};
  for (const auto& [range, side] : sides) {
    if (!range) continue;
    std::string found;
    if (wanted.family == 4) {
      const Entry<Ipv4> entry{static_cast<Ipv4>(range->first), static_cast<Ipv4>(range->last), 0, 0, side, 0, kNever};
      found = holder_text(list.v4(), entry, search, list);
    } else {
      const Entry<Ipv6> entry{range->first, range->last, 0, 0, side, 0, kNever};
      found = holder_text(list.v6(), entry, search, list);
    }
    if (!found.empty()) return found;
  }
  return "";
}

std::string flow_holder_of(const List& list, const Flow& wanted, const HolderSearch& search) {
  for (const Flow& flow : list.flows()) {
    if (search.of_files_alone && flow.source == kJournalSource) continue;
    if (flow.expires < search.until) continue;
    Flow asked = flow;
    asked.line = wanted.line;
    asked.expires = wanted.expires;
    asked.source = wanted.source;
    if (asked != wanted) continue;
    return placed(flow_text(flow), list.file_of(flow.source), flow.line);
  }
  return side_holder_of(list, wanted, search);
}

}  // namespace

std::string holder_of(const List& list, const ListDraft& wanted, const HolderSearch& search) {
  if (!wanted.v4.empty()) return holder_text(list.v4(), wanted.v4.front(), search, list);
  if (!wanted.v6.empty()) return holder_text(list.v6(), wanted.v6.front(), search, list);
  return wanted.flows.empty() ? "" : flow_holder_of(list, wanted.flows.front(), search);
}

std::string own_holder_of(const Own& own, const ListDraft& wanted) {
  const auto holder = [&](const auto& rows, auto entry) -> std::string {
    if ((entry.directions & kNamesSide) != 0) return "";
    entry.port = 0;
    entry.directions = kBothDirections;
    return holder_text(rows, entry, {}, own);
  };
  if (!wanted.v4.empty()) return holder(own.entries->v4, wanted.v4.front());
  return wanted.v6.empty() ? "" : holder(own.entries->v6, wanted.v6.front());
}

}  // namespace weir::control
