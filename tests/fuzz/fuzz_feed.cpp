// Any bytes as a plain feed: no crash, every line accounted for, and what was read is sound. Any feed before any guard,
// beside nothing, itself and part of itself: it is judged, and what was to be cut is gone.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "control/policy/feeds/format.h"
#include "control/policy/model/columns.h"
#include "control/policy/read/feed_guard.h"

namespace {

void require(bool holds) {
  if (!holds) abort();
}

template <class Addr>
void require_entries(const std::vector<weir::control::Entry<Addr>>& entries, uint64_t lines, bool allow_any) {
  for (const auto& entry : entries) {
    require(entry.first <= entry.last);
    require(entry.port == 0 || entry.first == entry.last);
    require(entry.line >= 1 && entry.line <= lines && entry.source == 1 && entry.directions == WEIR_AS_DESTINATION);
    require(allow_any || entry.first != 0 || entry.last != static_cast<Addr>(~Addr{0}));
  }
}

using namespace weir::control;

void require_complaint(const Complaint& complaint) {
  require(complaint.reason.starts_with("feed ") && !complaint.hint.empty());
}

bool ends_in_newline(std::string_view text) {
  return text.empty() || text.back() == '\n';
}

// The list as it was when its feed was this.
List list_of(const ListDraft& draft, std::string_view text) {
  List list;
  list.feed = draft.feed;
  list.feed_state.file.size_bytes = text.size();
  list.feed_state.ends_in_newline = text.empty() || text.back() == '\n';
  list.content = make_entries(draft);
  return list;
}

// Beside nothing, and beside itself.
void require_judgement(const ListDraft& list, std::string_view text) {
  const bool ends = ends_in_newline(text);
  if (const auto* content = feeds::content_of(text)) require(content->what[0] != 0 && content->hint[0] != 0);
  ListDraft own;
  if (!list.v4.empty()) own.v4.push_back(list.v4.back());
  FeedOptions options;
  options.guard.reserved = Reserved::cut;
  options.guard.min_entries = 0;
  ListDraft cut = list;
  const Judgement first = judge({"feed", text.size(), ends, cut, nullptr, own, options});
  for (const auto& entry : cut.v4) {
    require(entry.first <= entry.last);
    if (first.refused) continue;
    require(entry.last < 0x0a000000 || entry.first > 0x0affffff);
    require(entry.last < own.v4[0].first || entry.first > own.v4[0].last);
  }
  for (const auto& entry : cut.v6) require(entry.first <= entry.last && (first.refused || entry.last < ~weir::Ipv6{0}));
  const List before = list_of(list, text);
  require(count_gone(*before.content, *before.content) == 0);
  options.guard.reserved = Reserved::keep;
  options.allow_any = true;
  cut = list;
  require(!judge({"feed", text.size(), ends, cut, &before, own, options}).refused);
}

// A guard that these bits choose.
FeedOptions chosen_options(unsigned bits) {
  FeedOptions options;
  Guard& guard = options.guard;
  guard.reserved = static_cast<Reserved>(bits & 3);
  guard.min_entries = bits >> 2 & 3;
  guard.max_shrink = (bits & 16) != 0 ? 0.5 : 0.1;
  guard.max_growth = (bits & 16) != 0 ? 3 : 1.5;
  guard.widest_v4 = (bits & 32) != 0 ? 24 : 0;
  guard.widest_v6 = (bits & 32) != 0 ? 64 : 0;
  options.allow_any = (bits & 64) != 0;
  return options;
}

template <class Addr>
bool is_wider(const std::vector<Entry<Addr>>& entries, uint64_t addresses_less_one) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const Entry<Addr>& entry) { return entry.last - entry.first > addresses_less_one; });
}

// Beside what another part of the text says that it was.
void require_change(std::string_view was, std::string_view now, unsigned bits) {
  const FeedOptions options = chosen_options(bits);
  const auto read = [&](std::string_view text) {
    ListDraft draft;
    feeds::read_text(feeds::plain_format(), text, {.directions = WEIR_AS_DESTINATION, .allow_any = options.allow_any},
                     draft);
    return draft;
  };
  ListDraft draft = read(now);
  const List before = list_of(read(was), was);
  const uint64_t entries = draft.entries();
  require(count_gone(*before.content, *make_entries(draft)) <= before.content->v4.size() + before.content->v6.size());
  const Judgement judgement = judge({"feed", now.size(), ends_in_newline(now), draft, &before, {}, options});
  for (const Complaint& warning : judgement.warnings) require_complaint(warning);
  if (judgement.refused) return require_complaint(*judgement.refused);
  const Guard& guard = options.guard;
  require(draft.entries() >= guard.min_entries);
  require(guard.widest_v4 == 0 || !is_wider(draft.v4, 0xff));
  require(guard.widest_v6 == 0 || !is_wider(draft.v6, ~uint64_t{0}));
  const auto least = static_cast<double>(before.feed.entries) * (1 - guard.max_shrink);
  require(static_cast<double>(entries) >= least);
  require(before.feed.entries == 0 ||
          static_cast<double>(entries) <= static_cast<double>(before.feed.entries) * guard.max_growth);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool allow_any = size % 2 == 0;
  ListDraft list;
  feeds::read_text(feeds::plain_format(), text, {.directions = WEIR_AS_DESTINATION, .allow_any = allow_any}, list);
  const auto& feed = list.feed;
  require(feed.lines <= size && feed.entries == list.entries());
  require(feed.samples.size() == std::min<uint64_t>(feed.bad, 5) + std::min<uint64_t>(feed.host_bits, 5) +
                                     std::min<uint64_t>(feed.skipped, 5));
  for (const auto& bad : feed.samples) {
    require(bad.line <= feed.lines && bad.text.size() <= 80 && !bad.reason.empty());
  }
  require_entries(list.v4, feed.lines, allow_any);
  require_entries(list.v6, feed.lines, allow_any);
  require(least_bytes(list) <= kLeastHostBytes * feed.entries &&
          least_bytes(list) >= kLeastNetworkBytes * feed.entries);
  if (size % 4 == 0) require_judgement(list, text);  // it takes as long as all else
  if (size % 8 == 2) {
    const unsigned bits = std::accumulate(data, data + size, 0u);
    const size_t half = size / 2;
    const bool grows = (bits & 128) != 0;
    require_change(grows ? text.substr(half) : text, grows ? text : text.substr(half), bits);
  }
  return 0;
}
