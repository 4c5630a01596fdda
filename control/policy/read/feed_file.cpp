#include "control/policy/read/feed_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "common/clock.h"
#include "control/policy/model/columns.h"
#include "control/policy/model/range_text.h"
#include "control/policy/read/feed_parts.h"

namespace weir::control {
namespace {

// A file that is written while it is read is read again, so often.
constexpr int kAttempts = 3;
static_assert(FeedParts::kPartBytes <= feeds::kMostTextBytes);
// So many entries are kept before it is known that all of them fit into filter.memory.
constexpr size_t kMostUncounted = size_t{1} << 20;
constexpr uint64_t kMostReserved = uint64_t{1} << 26;
constexpr uint64_t kLeastTextBytes = 3;  // of an entry: `::` and what ends it

template <class Addr>
void append(std::vector<Entry<Addr>>& to, const std::vector<Entry<Addr>>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// The list that had this feed, best the one of the same name: its entries may be the same, too.
const List* find_feed(const Book& book, const FeedRequest& request, const std::string& name) {
  const List* found = nullptr;
  for (const List& list : book) {
    if (list.feed.path != request.path || list.feed_state.options != request.options) continue;
    if (found == nullptr || list.name == name) found = &list;
  }
  return found;
}

// Whose last good content is kept: the list's own, from whatever file, else that of a list with this file.
const List* find_last_good(const Book& book, const std::string& path, const std::string& name) {
  const List* found = nullptr;
  for (const List& list : book) {
    if (list.feed.path.empty()) continue;
    if (list.name == name) return &list;
    if (found == nullptr && list.feed.path == path) found = &list;
  }
  return found;
}

// The feed's entries of the last good content, as the list now wants them, and the list's own.
std::shared_ptr<const Entries> kept_content(const List& good, const FeedOptions& wanted, ListDraft own) {
  const FeedOptions& had = good.feed_state.options;
  if (had.match == wanted.match && had.ipv6_aggregate == wanted.ipv6_aggregate && had.allow_any == wanted.allow_any) {
    return replace_own(good.as_written(), std::move(own));
  }
  ListDraft feed = draft_of(*good.as_written());
  feed.flows = std::move(own.flows);
  feed.comments = std::move(own.comments);
  const auto adapt = [&](auto& entries) {
    std::erase_if(entries, [&](const auto& entry) {
      const bool is_any = entry.first == 0 && entry.last == static_cast<decltype(entry.last)>(~entry.first);
      return entry.source != 1 || (is_any && !wanted.allow_any);
    });
    for (auto& entry : entries) entry.directions = wanted.match;
  };
  adapt(feed.v4);
  adapt(feed.v6);
  ListDraft widened;
  widened.v6 = std::move(feed.v6);
  aggregate_ipv6(widened, wanted.ipv6_aggregate);
  feed.v6 = std::move(widened.v6);
  append(feed.v4, own.v4);
  append(feed.v6, own.v6);
  return make_entries(std::move(feed));
}

template <class Addr>
bool has_timeouts(const Rows<Addr>& rows) {
  if (rows.expires.each.empty()) return rows.expires.all != kNever && !rows.empty();
  for (size_t row = 0; row < rows.size(); row++) {
    if (rows.source[row] != 0 && rows.source[row] != kJournalSource && rows.expires[row] != kNever) return true;
  }
  return false;
}

// When the file was written, which its timeouts count from.
uint32_t written_at(const FileIdentity& file) {
  const int64_t seconds = file.modified_ns / 1'000'000'000;
  return static_cast<uint32_t>(std::clamp<int64_t>(seconds, 0, unix_now()));
}

// One feed, in the order of what is found out about it.
class FeedReader {
 public:
  FeedReader(const FeedRequest& request, ListDraft own, uint64_t own_widened, const ListDraft& exempt,
             const FeedHistory& history, List& list)
      : request_(request),
        own_(std::move(own)),
        own_widened_(own_widened),
        exempt_(exempt),
        list_(list),
        parsers_(history.parsers),
        progress_(history.progress),
        is_being_written_(history.is_being_written),
        is_accepted_(history.accept.contains(list.name)) {
    if (history.book == nullptr) return;
    if (history.is_ours) known_ = find_feed(*history.book, request, list.name);
    good_ = find_last_good(*history.book, request.path, list.name);
  }

  FeedOutcome read() {
    list_.feed.path = request_.path;
    if (is_same_file()) {
      reuse(known_->feed_state.file, true);
      return std::move(outcome_);
    }
    if (is_half_written()) {
      keep_until_written();
      return std::move(outcome_);
    }
    Result<FeedParts> file = FeedParts::open(request_.path);
    if (!file) {
      const Complaint unreadable = {file.error(), "a relative path begins at the folder of the policy"};
      refuse(request_.missing && !identity_of(request_.path) ? *request_.missing : unreadable, WayOut::mend);
      return std::move(outcome_);
    }
    for (int attempt = 1; !take(*file); attempt++) {
      if (attempt < kAttempts) continue;
      refuse({request_.path + " changes while it is read", "write feeds beside it, and rename them into its place"},
             WayOut::mend);
      break;
    }
    return std::move(outcome_);
  }

 private:
  bool is_same_file() const {
    return known_ != nullptr && known_->feed_state.settled && !known_->feed_state.unfinished &&
           identity_of(request_.path) == known_->feed_state.file;
  }

  void reuse(const FileIdentity& file, bool settled) {
    list_.feed = known_->feed;
    list_.feed_state = known_->feed_state;
    list_.feed_state.file = file;
    list_.feed_state.settled = settled;
    list_.feed_state.accepted = list_.feed_state.accepted || is_accepted_;
    list_.ipv6_widened = own_widened_ + list_.feed_state.ipv6_widened;
    list_.content = replace_own(known_->as_written(), std::move(own_));
  }

  // By somebody who has not closed it, and there is something to keep until he does.
  bool is_half_written() {
    const bool is_written = is_being_written_ && is_being_written_(request_.path);
    was_written_ = was_written_ || is_written;
    return is_written && (known_ != nullptr || good_ != nullptr);
  }

  void keep_until_written() {
    if (known_ == nullptr) {
      return refuse({request_.path + " is being written", "it is read when whoever writes it has closed it"},
                    WayOut::mend);
    }
    const FeedState& state = known_->feed_state;
    reuse(state.file, state.settled);
    list_.feed_state.accepted = state.accepted;
    list_.refusal = known_->refusal;
  }

  enum class WayOut : uint8_t { mend, accept };  // accept: there is something that may be taken as it is

  void refuse(const Complaint& complaint, WayOut way_out) {
    if (good_ == nullptr) {
      outcome_.error = complaint;
      return;
    }
    const bool is_again = good_->refusal && good_->refusal->reason == complaint.reason;
    list_.refusal =
        FeedRefusal{request_.path, complaint.reason, complaint.hint, is_again ? good_->refusal->since : unix_now()};
    if (way_out == WayOut::accept) {
      list_.refusal->hint += fmt::format("; or take it as it is: `controlctl feeds --accept {}`", list_.name);
    }
    list_.feed = good_->feed;
    list_.feed_state = good_->feed_state;
    list_.ipv6_widened = own_widened_ + list_.feed_state.ipv6_widened;
    list_.content = kept_content(*good_, request_.options, std::move(own_));
  }

  static bool has_bytes(const List* list, const FeedParts::Scan& scan) {
    return list != nullptr && list->feed_state.digest == scan.digest &&
           list->feed_state.file.size_bytes == scan.size_bytes;
  }

  // The same bytes mean something else when what they say counts from when they were written.
  static bool means_the_same(const List& list, const FileIdentity& file) {
    return list.feed_state.file.modified_ns == file.modified_ns ||
           !(has_timeouts(list.content->v4) || has_timeouts(list.content->v6));
  }

  // False: the file has changed meanwhile.
  bool take(FeedParts& file) {
    const Result<FeedParts::Scan> scan = file.scan();
    if (!scan) return refuse({scan.error(), "look at the disk that holds it"}, WayOut::mend), true;
    FileIdentity identity = file.file();
    const bool settled = file.settled() && identity_of(request_.path) == identity;
    identity.size_bytes = scan->size_bytes;
    if (has_bytes(known_, *scan) && means_the_same(*known_, identity)) {
      reuse(identity, settled);
      list_.feed_state.unfinished = false;  // nobody writes to it any more
      return true;
    }

    const bool is_good_again = has_bytes(good_, *scan) && good_->feed.path == request_.path;
    const bool is_judged =
        is_good_again && (good_->feed_state.accepted || (good_->feed_state.options.guard == request_.options.guard &&
                                                         good_->feed_state.options.own == request_.options.own));
    ListDraft feed;
    Result<Parsed> parsed = parse(file, *scan, feed);
    if (!parsed) return refuse({parsed.error(), "look at the file, and at the disk that holds it"}, WayOut::mend), true;
    if (parsed->is_too_large) return refuse(*parsed->is_too_large, WayOut::mend), true;
    if (parsed->digest != scan->digest) return false;
    if (is_half_written()) return keep_until_written(), true;
    if (feed.fault && !(feed.fault->is_cut_off && (is_judged || is_accepted_))) {
      const std::string read_as =
          feed.feed.why.empty() ? "" : fmt::format(" (read as {}: {})", feed.feed.format, feed.feed.why);
      return refuse({request_.path + " " + feed.fault->reason + read_as, feed.fault->hint},
                    feed.fault->is_cut_off ? WayOut::accept : WayOut::mend),
             true;
    }
    feed.fault.reset();

    const bool has_whole = good_ != nullptr && good_->feed.path == request_.path && !good_->feed_state.unfinished;
    const List* before = has_whole ? good_ : nullptr;
    Judgement judgement =
        judge({request_.path, scan->size_bytes, parsed->ends_in_newline, feed, before, exempt_, request_.options});
    if (judgement.refused && !is_judged && !is_accepted_) return refuse(*judgement.refused, WayOut::accept), true;
    if (!is_judged) outcome_.warnings = std::move(judgement.warnings);
    for (FeedNote& note : judgement.notes) feed.feed.notes.push_back(std::move(note));

    const bool is_part = good_ == nullptr ? was_written_ : is_good_again && good_->feed_state.unfinished;
    if (is_part && !is_good_again) {
      outcome_.warnings.push_back(
          {fmt::format("{} is being written: what is there so far is taken (entries: {})", request_.path,
                       feed.feed.entries),
           "the rest is taken when whoever writes it has closed it; write feeds beside it, and rename them"});
    }
    list_.feed_state = {.file = identity,
                        .settled = settled,
                        .digest = scan->digest,
                        .options = request_.options,
                        .ends_in_newline = parsed->ends_in_newline,
                        .accepted = is_accepted_ || (is_good_again && good_->feed_state.accepted),
                        .taken_at = is_good_again ? good_->feed_state.taken_at : unix_now(),
                        .unfinished = is_part};
    keep(std::move(feed));
    if (before != nullptr && !is_judged && !is_accepted_) warn_of_exchange(*before);
    return true;
  }

  void keep(ListDraft feed) {
    list_.feed_state.ipv6_widened = aggregate_ipv6(feed, request_.options.ipv6_aggregate);
    if (request_.supplies != nullptr) {
      for (FeedNote& note : cut_supplies(*request_.supplies, request_.options.guard.supplies, feed)) {
        feed.feed.notes.push_back(std::move(note));
      }
    }
    list_.feed = feed.feed;
    list_.ipv6_widened = own_widened_ + list_.feed_state.ipv6_widened;
    append(feed.v4, own_.v4);
    append(feed.v6, own_.v6);
    feed.flows = std::move(own_.flows);
    feed.comments = std::move(own_.comments);
    list_.content = make_entries(std::move(feed));
  }

  struct Parsed {
    std::array<uint64_t, 2> digest = {};
    bool ends_in_newline = true;  // formats that are not of lines: always
    std::optional<Complaint> is_too_large;
  };

  // After each part of the file `goes_on` is asked; false: the rest is not read.
  Result<Parsed> parse_parts(FeedParts& file, ListDraft& feed, const std::function<bool()>& goes_on) const {
    feeds::Parser::How how = {request_.format, {}};
    how.options.directions = request_.options.match;
    how.options.action = request_.options.action;
    how.options.allow_any = request_.options.allow_any;
    how.options.written = written_at(file.file());
    how.options.settings = request_.settings;
    feeds::Reading here(how.format, how.options);
    std::optional<feeds::Parser> apart;
    if (parsers_ != nullptr) {
      Result<feeds::Parser> made = feeds::Parser::make(*parsers_, how);
      if (!made) return Error{made.error()};
      apart.emplace(std::move(*made));
    }
    Result<void> read;
    const auto read_here = [&](std::string_view bytes, bool is_end) {
      for (bool more = here.read(bytes, is_end, feed); more && goes_on();) more = here.read({}, is_end, feed);
    };
    bool whole = true;
    if (progress_ != nullptr) progress_->expect(file.file().size_bytes);
    const Result<std::array<uint64_t, 2>> digest = file.visit([&](std::string_view bytes) {
      if (progress_ != nullptr) progress_->add(bytes.size());
      if (feed.fault) return true;  // it is no feed: its digest alone is asked for
      if (apart) {
        read = apart->read(bytes, feed);
      } else {
        read_here(bytes, false);
      }
      return whole = read && goes_on();
    });
    if (!digest) return Error{digest.error()};
    if (read && whole && !feed.fault) {
      if (apart) {
        read = apart->finish(feed);
      } else {
        read_here({}, true);
      }
      (void)goes_on();
    }
    if (!read) return Error{request_.path + ": " + read.error()};
    const feeds::Format* format = feeds::find_format(feed.feed.format);
    const bool is_lines = format == nullptr || format->parts == feeds::Parts::lines;
    return Parsed{*digest, !is_lines || (apart ? apart->ends_in_newline() : here.ends_in_newline()), std::nullopt};
  }

  // What cannot fit into filter.memory is not kept in memory to find that out: past kMostUncounted entries, all of them
  // are counted before the first is kept.
  Result<Parsed> parse(FeedParts& file, const FeedParts::Scan& scan, ListDraft& feed) const {
    const uint64_t most = request_.memory_bytes / kLeastHostBytes, lines = scan.lines() - scan.empty_lines;
    const auto begin = [&] {
      feed = ListDraft();
      feed.feed.path = request_.path;
      if (!scan.is_packed) feed.v4.reserve(std::min({lines, most, kMostReserved}));
    };
    const auto is_sure = [&] {
      const feeds::Format* format = feeds::find_format(feed.feed.format);
      const bool is_lines = format != nullptr && format->parts == feeds::Parts::lines;
      return !scan.is_packed && std::min(is_lines ? lines : scan.size_bytes, scan.size_bytes / kLeastTextBytes) <= most;
    };
    begin();
    bool is_stopped = false;
    Result<Parsed> parsed = parse_parts(file, feed, [&] {
      is_stopped = feed.entries() > std::min<uint64_t>(kMostUncounted, most) && !is_sure();
      return !is_stopped;
    });
    if (!parsed || !is_stopped) return parsed;
    begin();
    uint64_t bytes = 0;
    parsed = parse_parts(file, feed, [&] {
      bytes += least_bytes(feed);
      feed.v4.clear();
      feed.v6.clear();
      return bytes <= request_.memory_bytes;
    });
    if (!parsed) return parsed;
    if (bytes > request_.memory_bytes) {
      parsed->is_too_large = Complaint{
          fmt::format("{} holds more entries than fit into filter.memory: the first {} lines hold {}, which take {} "
                      "bytes at least, and {} are allowed",
                      request_.path, feed.feed.lines, feed.feed.entries, bytes, request_.memory_bytes),
          "raise filter.memory (`controlctl size` says how far), or look at the file"};
      return parsed;
    }
    begin();
    return parse_parts(file, feed, [] { return true; });
  }

  // As many entries as before say nothing when they are others.
  void warn_of_exchange(const List& before) {
    if (before.feed_state.options.ipv6_aggregate != request_.options.ipv6_aggregate) return;
    const uint64_t was = before.feed.entries, gone = count_gone(*before.as_written(), *list_.content);
    if (was == 0 || static_cast<double>(gone) <= static_cast<double>(was) * request_.options.guard.max_shrink) return;
    outcome_.warnings.push_back(
        {fmt::format("{} has other entries now: {} of the {} that it had are gone", request_.path, gone, was),
         "look at the file: is it still the same list?"});
  }

  const FeedRequest& request_;
  ListDraft own_;
  const uint64_t own_widened_;
  const ListDraft& exempt_;
  List& list_;
  const confine::Helpers* const parsers_;
  Progress* const progress_;
  const std::function<bool(const std::string&)>& is_being_written_;
  const bool is_accepted_;
  const List* known_ = nullptr;  // of this path with these options, read by this process
  const List* good_ = nullptr;
  bool was_written_ = false;  // by somebody, when it was looked at
  FeedOutcome outcome_;
};

}  // namespace

FeedOutcome read_feed(const FeedRequest& request, ListDraft own, uint64_t own_widened, const ListDraft& exempt,
                      const FeedHistory& history, List& list) {
  return FeedReader(request, std::move(own), own_widened, exempt, history, list).read();
}

uint64_t aggregate_ipv6(ListDraft& draft, uint8_t prefix_bits) {
  if (prefix_bits == 128) return 0;
  const auto mask = prefix_mask<Ipv6>(prefix_bits);
  uint64_t widened = 0;
  // A comment goes with its entry.
  const auto by_line = [](const EntryComment& a, const EntryComment& b) { return a.line < b.line; };
  std::stable_sort(draft.comments.begin(), draft.comments.end(), by_line);
  const auto keep_comment = [&](const auto& entry, const auto& work) {
    const auto [begin, end] =
        std::equal_range(draft.comments.begin(), draft.comments.end(), EntryComment{entry.line, {}, {}}, by_line);
    const std::string before = begin == end ? "" : shown_text(entry);
    work();
    for (auto comment = begin; comment != end; ++comment) {
      if (comment->entry == before) comment->entry = shown_text(entry);
    }
  };
  const auto widen = [&](Ipv6& first, Ipv6& last) {
    if (first != last) return;
    first &= mask;
    last = first | ~mask;
    widened++;
  };
  for (Entry<Ipv6>& entry : draft.v6) {
    keep_comment(entry, [&] { widen(entry.first, entry.last); });
  }
  for (Flow& flow : draft.flows) {
    if (flow.family != 6) continue;
    keep_comment(flow, [&] {
      if (flow.src) widen(flow.src->first, flow.src->last);
      if (flow.dst) widen(flow.dst->first, flow.dst->last);
    });
  }
  return widened;
}

}  // namespace weir::control
