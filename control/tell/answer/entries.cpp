#include "control/tell/answer/entries.h"

#include <fmt/format.h>

#include <charconv>

#include "control/policy/model/range_text.h"

namespace weir::control {
namespace {

using Part = EntriesPlace::Part;
constexpr std::string_view kParts = "ijfae";  // in the order of Part; no digits: numbers stand on both sides

bool is_live(uint32_t expires, uint64_t now) {
  return expires == kNever || now < expires;
}

std::optional<uint32_t> end_of(uint32_t expires) {
  return expires == kNever ? std::nullopt : std::optional<uint32_t>(expires);
}

// visit(entry) from the place on, while it says so and rows are left; then the next part begins.
template <class Rows, class Visit>
bool walk(const Rows& rows, Part next, EntriesPlace& place, Visit visit) {
  for (; place.row < rows.size(); place.row++) {
    if (!visit(rows[place.row])) return false;
  }
  place.part = next;
  place.row = 0;
  return true;
}

template <class Visit>
void walk(const List& list, EntriesPlace& place, Part last, Visit visit) {
  if (place.part == Part::v4 && !walk(list.v4(), Part::v6, place, visit)) return;
  if (place.part == Part::v6 && !walk(list.v6(), Part::flows, place, visit)) return;
  if (place.part == Part::flows) (void)walk(list.flows(), last, place, visit);
}

template <class Addr>
EntryDetails details_of(const List& list, const Entry<Addr>& entry) {
  return {range_text(entry.first, entry.last, entry.port),
          entry.directions,
          list.file_of(entry.source),
          entry.line,
          end_of(entry.expires),
          std::nullopt};
}

std::string text_without_expiry(Flow flow) {
  flow.expires = kNever;
  return flow_line(flow);
}

EntryDetails details_of(const List& list, const Flow& flow) {
  const int sides = (flow.src ? WEIR_AS_SOURCE : 0) | (flow.dst ? WEIR_AS_DESTINATION : 0);
  return {text_without_expiry(flow), static_cast<uint8_t>(sides),
          list.file_of(flow.source), flow.line,
          end_of(flow.expires),      std::nullopt};
}

template <class Addr>
std::string text_in(const List& list, const Entry<Addr>& entry) {
  return entry_text(entry, list.match);
}
std::string text_in(const List&, const Flow& flow) {
  return text_without_expiry(flow);
}

}  // namespace

std::optional<EntriesPlace> EntriesPlace::parse(const std::string& text) {
  EntriesPlace place;
  const char* end = text.data() + text.size();
  const auto generation = std::from_chars(text.data(), end, place.generation);
  if (generation.ec != std::errc() || generation.ptr == end) return std::nullopt;
  const size_t part = kParts.find(*generation.ptr);
  if (part == std::string_view::npos) return std::nullopt;
  place.part = static_cast<Part>(part);
  const auto row = std::from_chars(generation.ptr + 1, end, place.row);
  if (row.ec != std::errc() || row.ptr == end || *row.ptr != '.') return std::nullopt;
  place.text.assign(row.ptr + 1, end);
  return place;
}

std::string EntriesPlace::print() const {
  return fmt::format("{}{}{}.{}", generation, kParts[static_cast<size_t>(part)], row, text);
}

std::vector<EntryDetails> written_entries(const List& list, EntriesPlace& place) {
  std::vector<EntryDetails> page;
  walk(list, place, Part::added, [&](const auto& entry) {
    if (page.size() == kEntriesOfPage) return false;
    if (entry.source != kJournalSource) page.push_back(details_of(list, entry));
    return true;
  });
  return page;
}

std::vector<std::string> live_entries(const List& list, uint64_t now, EntriesPlace& place) {
  std::vector<std::string> page;
  walk(list, place, Part::end, [&](const auto& entry) {
    if (page.size() == kTextsOfPage) return false;
    if (is_live(entry.expires, now)) page.push_back(text_in(list, entry));
    return true;
  });
  return page;
}

void members(Fields& f, EntryDetails::Added& added) {
  f({"added_at", "Unix seconds", "of an entry of add: when it was added, or renewed"}, added.at);
  f({"added_by", "", "who did it: the number of the user"}, added.by);
  f({"comment", "", "of it"}, added.comment);
}

void members(Fields& f, EntryDetails& entry) {
  f({"entry", "", "in canonical text"}, entry.entry);
  directions(f, {"match", "", "src, dst: what it is compared with"}, entry.match);
  f({"file", "", "where it is written: the policy, a feed, or controlctl add"}, entry.file);
  f({"line", "", "of the file; 0: it was added"}, entry.line);
  f.maybe({"expires", "Unix seconds", "matches until then"}, entry.expires);
  f.unless_empty({"enforced_as", "", "of an entry of add: what `ipv6_aggregate` made of it"}, entry.enforced_as);
  f.group("added_at", entry.added);
}

void members(Fields& f, EntriesAnswer& answer) {
  f.object({"generation", "", "whose entries they are"}, answer.generation, "generation");
  f({"list", "", "whose entries they are"}, answer.list);
  f.array({"entries", "", "a page of them: those of files, then those that were added"}, answer.entries, "entry");
  f.unless_empty({"next", "", "to be asked for as `after`; missing: this was the last page"}, answer.next);
}

void members(Fields& f, ExportAnswer& answer) {
  f.object({"generation", "", "whose entries they are"}, answer.generation, "generation");
  f({"list", "", "whose entries they are"}, answer.list);
  f.texts({"entries", "", "a page of what is enforced of it, as add takes them: by address, IPv4, IPv6, then flows"},
          answer.entries);
  f.unless_empty({"next", "", "to be asked for as `after`; missing: this was the last page"}, answer.next);
}

}  // namespace weir::control
