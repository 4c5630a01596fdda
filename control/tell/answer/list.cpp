#include "control/tell/answer/list.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "control/policy/model/range_text.h"

namespace weir::control {

// ------------------------------------------------------------------------------------------------------------ lists

void members(Fields& f, LineSample& line) {
  f({"line", "", "its number"}, line.line);
  f({"text", "", "of it, 80 characters at most"}, line.text);
  f({"reason", "", "what is wrong with it"}, line.reason);
  std::string kind = LineSample::kNames[line.kind];
  f({"kind", "",
     "bad; skipped: understood, and no entry of this list; host_bits: an entry whose host bits were cleared"},
    kind);
  if (!f.reading()) return;
  for (size_t i = 0; i < LineSample::kKinds; i++) {
    if (kind == LineSample::kNames[i]) line.kind = static_cast<LineSample::Kind>(i);
  }
}

void members(Fields& f, FeedReport& feed) {
  f({"path", "", "as it was opened"}, feed.path);
  f({"lines", "", "all lines of the file"}, feed.lines);
  f({"entries", "", "lines that are entries"}, feed.entries);
  f({"bad", "", "lines that are neither entries nor comments"}, feed.bad);
  f({"skipped", "", "lines that are understood, and no entries of a list of addresses"}, feed.skipped);
  f({"host_bits", "", "entries whose host bits were cleared"}, feed.host_bits);
  f.array({"samples", "", "the first 5 lines of each kind"}, feed.samples, "line to look at");
}

void members(Fields& f, ListDetails::Widened& widened) {
  f({"ipv6_aggregate", "bits", "length that single IPv6 addresses are widened to; unless it is 128"},
    widened.ipv6_aggregate);
  f({"ipv6_widened", "", "addresses that were widened"}, widened.ipv6_widened);
}

void members(Fields& f, DynamicDetails& dynamic) {
  f({"max_entries", "", "that may be added"}, dynamic.max_entries);
  f({"max_ttl", "seconds", "that one may stay; 0: for ever"}, dynamic.max_ttl);
}

void members(Fields& f, ListDetails& list) {
  f({"name", "", "of the list"}, list.name);
  f.unless_empty({"comment", "", "of the policy"}, list.comment);
  f({"action", "", "drop or pass"}, list.action);
  f({"mode", "", "enforce or monitor"}, list.mode);
  directions(f, {"match", "", "src, dst: what entries without named fields are compared with; empty: not known"},
             list.match);
  f({"entries", "", "all"}, list.entries);
  f({"v4", "", "IPv4 addresses, prefixes and ranges"}, list.v4);
  f({"v6", "", "IPv6 addresses, prefixes and ranges"}, list.v6);
  f({"flows", "", "entries with more fields"}, list.flows);
  f({"own_cut", "", "entries that policy.own is cut out of"}, list.own_cut);
  f.group("ipv6_aggregate", list.widened);
  f.maybe_object({"dynamic", "", "of a list with `dynamic: true`"}, list.dynamic, "dynamic");
  f.maybe_object({"feed", "", "of a list with a file"}, list.feed, "feed");
  f.maybe_array({"files", "", "of a list whose file is a pattern or a folder; `feed` has their sums"}, list.files,
                "feed");
}

void members(Fields& f, ListAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.array({"lists", "", "in the order of the policy"}, answer.lists, "one list");
}

namespace {

const char* name_of(weir_action action) {
  return action == WEIR_DROP ? "drop" : "pass";
}

const char* name_of(weir_mode mode) {
  return mode == WEIR_MONITOR ? "monitor" : "enforce";
}

}  // namespace

std::vector<ListDetails> details_of(const Book& book) {
  std::vector<ListDetails> lists;
  for (const List& list : book) {
    ListDetails& details = lists.emplace_back();
    details.name = list.name;
    details.comment = list.comment;
    details.action = name_of(list.action);
    details.mode = name_of(list.mode);
    details.match = list.match;
    const Entries& written = *list.as_written();
    details.entries = written.size();
    details.v4 = written.v4.size();
    details.v6 = written.v6.size();
    details.flows = written.flows.size();
    details.own_cut = list.cut.entries;
    if (list.ipv6_aggregate != 128) details.widened = {list.ipv6_aggregate, list.ipv6_widened};
    if (list.dynamic) details.dynamic = {list.dynamic->max_entries, list.dynamic->max_ttl_s};
    if (!list.file.empty()) details.feed = list.feed;
    for (const FeedFile& file : list.files) {
      if (!details.files) details.files.emplace();
      details.files->push_back(file.feed);
    }
  }
  return lists;
}

std::vector<ListDetails> details_of(const filter::SnapshotView& snapshot) {
  std::vector<ListDetails> lists;
  for (const weir_list& list : snapshot.lists()) {
    ListDetails& details = lists.emplace_back();
    details.name.assign(list.name, strnlen(list.name, sizeof list.name));
    details.action = name_of(static_cast<weir_action>(list.action));
    details.mode = name_of(static_cast<weir_mode>(list.mode));
    details.entries = list.n_entries;
  }
  return lists;
}

// ------------------------------------------------------------------------------------------------------------ feeds

void members(Fields& f, FetchDetails& fetch) {
  f({"url", "", "without user and password"}, fetch.url);
  f({"every_s", "seconds", "how often it is asked for; 10 % more or less"}, fetch.every_s);
  f({"tried_at", "Unix seconds", "when it was asked for last; 0: never"}, fetch.tried_at);
  f({"fetched_at", "Unix seconds", "when its server last answered as it should, be it that nothing changed; 0: never"},
    fetch.fetched_at);
  f({"changed_at", "Unix seconds", "when what it answers changed last; 0: never"}, fetch.changed_at);
  f({"next_at", "Unix seconds", "when it is asked for again"}, fetch.next_at);
  f({"bytes", "bytes", "of the file that was fetched last"}, fetch.bytes);
  f({"failures", "", "in a row"}, fetch.failures);
  f.unless_empty({"error", "", "why the last attempt failed"}, fetch.error);
}

void members(Fields& f, FeedNote& warning) {
  f({"reason", "", "the warning, which begins behind the name of the file"}, warning.reason);
  f({"hint", "", "the way out"}, warning.hint);
}

void members(Fields& f, FeedDetails& feed) {
  f({"list", "", "name of the list"}, feed.list);
  f({"file", "", "path, as it was opened"}, feed.file);
  f({"state", "",
     "good: without a warning; warned: taken, with warnings; accepted: by somebody, whatever its guard said; refused: "
     "the list keeps its last good content"},
    feed.state);
  f({"format", "", "that it was read as"}, feed.format);
  f.unless_empty({"why", "", "`format: auto`: what this format was told by"}, feed.why);
  f({"entries", "", "that are enforced"}, feed.entries);
  f({"lines", "", "all lines of what is enforced"}, feed.lines);
  f({"bad", "", "of these, neither entries nor comments"}, feed.bad);
  f({"skipped", "", "of these, understood, but no entries of a list of addresses"}, feed.skipped);
  f({"taken_at", "Unix seconds", "when what is enforced was read for the first time; 0: not known"}, feed.taken_at);
  f({"since", "Unix seconds", "refused: when it was for this reason, the first time in a row"}, feed.since);
  f.unless_empty({"reason", "", "refused: why, with the numbers"}, feed.reason);
  f.unless_empty({"hint", "", "refused: the way out"}, feed.hint);
  f.array({"warnings", "", "about the content that is enforced"}, feed.warnings, "feed warning");
  f.maybe_object({"fetch", "", "of a list with an `url`"}, feed.fetch, "fetch");
  f({"own_cut", "", "entries of the list that policy.own is cut out of"}, feed.own_cut);
}

void members(Fields& f, FeedsAnswer& answer) {
  f.object({"generation", "", "that runs"}, answer.generation, "generation");
  f.array({"feeds", "", "in the order of the policy"}, answer.feeds, "feed state");
}

namespace {

FeedDetails details_of(const std::string& list, const FeedFile& file) {
  const FeedReport& feed = file.feed;
  FeedDetails details = {list,
                         feed.path,
                         file.state.accepted  ? "accepted"
                         : feed.notes.empty() ? "good"
                                              : "warned",
                         feed.format,
                         feed.why,
                         feed.entries,
                         feed.lines,
                         feed.bad,
                         feed.skipped,
                         file.state.taken_at,
                         0,
                         "",
                         "",
                         feed.notes};
  if (file.refusal) {
    details.file = file.refusal->path;
    details.state = "refused";
    details.since = file.refusal->since;
    details.reason = file.refusal->reason;
    details.hint = file.refusal->hint;
  }
  return details;
}

}  // namespace

std::vector<FeedDetails> feeds_of(const Book& book) {
  std::vector<FeedDetails> all;
  for (const List& list : book) {
    const std::vector<FeedFile> feeds = list.feeds();
    const size_t n_before = all.size();
    for (const FeedFile& file : feeds) all.push_back(details_of(list.name, file));
    if (!list.file.empty() && feeds.empty()) all.push_back(details_of(list.name, {}));
    for (size_t i = n_before; i < all.size(); i++) all[i].own_cut = list.cut.entries;
  }
  return all;
}

std::vector<RefusedFeed> refused_feeds(const Book& book) {
  std::vector<RefusedFeed> refused;
  for (const List& list : book) {
    for (const FeedFile& feed : list.feeds()) {
      if (!feed.refusal) continue;
      const FeedRefusal& why = *feed.refusal;
      refused.push_back({list.name, why.path, why.reason, why.hint, why.since});
    }
  }
  return refused;
}

std::vector<WarnedFeed> warned_feeds(const Book& book) {
  std::vector<WarnedFeed> warned;
  for (const List& list : book) {
    for (const FeedFile& feed : list.feeds()) {
      for (const FeedNote& note : feed.feed.notes)
        warned.push_back({list.name, feed.feed.path, note.reason, note.hint});
    }
  }
  return warned;
}

// ---------------------------------------------------------------------------------------------------------- entries

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
  if (place.part == Part::v4 && !walk(list.as_written()->v4, Part::v6, place, visit)) return;
  if (place.part == Part::v6 && !walk(list.as_written()->v6, Part::flows, place, visit)) return;
  if (place.part == Part::flows) (void)walk(list.as_written()->flows, last, place, visit);
}

template <class Addr>
EntryDetails details_of(const List& list, const Entry<Addr>& entry) {
  return {range_text(entry.first, entry.last, entry.port),
          entry.sides(),
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
