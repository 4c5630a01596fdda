#include "control/read/feed_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "control/book/columns.h"
#include "control/read/feed_parts.h"

namespace weir::control {
namespace {

// A file that is written while it is read is read again, so often.
constexpr int kAttempts = 3;
static_assert(FeedParts::kPartBytes <= feeds::kMostTextBytes);

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
    return replace_own(good.content, std::move(own));
  }
  ListDraft feed = draft_of(*good.content);
  feed.flows = std::move(own.flows);
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
    Result<FeedParts> file = FeedParts::open(request_.path);
    if (!file) {
      refuse({file.error(), "a relative path begins at the folder of the policy"}, WayOut::mend);
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
    return known_ != nullptr && known_->feed_state.settled && identity_of(request_.path) == known_->feed_state.file;
  }

  void reuse(const FileIdentity& file, bool settled) {
    list_.feed = known_->feed;
    list_.feed_state = known_->feed_state;
    list_.feed_state.file = file;
    list_.feed_state.settled = settled;
    list_.feed_state.accepted = list_.feed_state.accepted || is_accepted_;
    list_.ipv6_widened = own_widened_ + list_.feed_state.ipv6_widened;
    list_.content = replace_own(known_->content, std::move(own_));
  }

  enum class WayOut : uint8_t { mend, accept };  // accept: there is something that may be taken as it is

  void refuse(const Complaint& complaint, WayOut way_out) {
    if (good_ == nullptr) {
      outcome_.error = complaint;
      return;
    }
    const bool is_again = good_->refusal && good_->refusal->reason == complaint.reason;
    list_.refusal = FeedRefusal{request_.path, complaint.reason, complaint.hint,
                                is_again ? good_->refusal->since : static_cast<int64_t>(time(nullptr))};
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

  // False: the file has changed meanwhile.
  bool take(FeedParts& file) {
    const Result<FeedParts::Scan> scan = file.scan();
    if (!scan) return refuse({scan.error(), "look at the disk that holds it"}, WayOut::mend), true;
    FileIdentity identity = file.file();
    const bool settled = file.settled() && identity_of(request_.path) == identity;
    identity.size_bytes = scan->size_bytes;
    if (has_bytes(known_, *scan)) return reuse(identity, settled), true;

    const bool is_good_again = has_bytes(good_, *scan) && good_->feed.path == request_.path;
    const bool is_judged =
        is_good_again && (good_->feed_state.accepted || (good_->feed_state.options.guard == request_.options.guard &&
                                                         good_->feed_state.options.own == request_.options.own));
    if (!is_judged && !is_accepted_ && request_.format->is_lines) {
      if (const auto complaint = complaint_of_content(request_.path, *scan))
        return refuse(*complaint, WayOut::accept), true;
    }
    if (const auto complaint = too_many(file, *scan)) return refuse(*complaint, WayOut::mend), true;

    ListDraft feed;
    feed.feed.path = request_.path;
    feed.v4.reserve(std::min(scan->lines() - scan->empty_lines, request_.memory_bytes / kLeastHostBytes));
    const Result<std::array<uint64_t, 2>> digest = parse(file, feed);
    if (!digest) return refuse({digest.error(), "look at the file, and at the disk that holds it"}, WayOut::mend), true;
    if (*digest != scan->digest) return false;

    const List* before = good_ != nullptr && good_->feed.path == request_.path ? good_ : nullptr;
    Judgement judgement = judge({request_.path, *scan, feed, before, exempt_, request_.action, request_.options});
    if (judgement.refused && !is_judged && !is_accepted_) return refuse(*judgement.refused, WayOut::accept), true;
    if (!is_judged) outcome_.warnings = std::move(judgement.warnings);

    list_.feed_state = {.file = identity,
                        .settled = settled,
                        .digest = scan->digest,
                        .options = request_.options,
                        .ends_in_newline = scan->ends_in_newline,
                        .accepted = is_accepted_ || (is_good_again && good_->feed_state.accepted),
                        .taken_at = is_good_again ? good_->feed_state.taken_at : static_cast<int64_t>(time(nullptr))};
    keep(std::move(feed));
    if (before != nullptr && !is_judged && !is_accepted_) warn_of_exchange(*before);
    return true;
  }

  void keep(ListDraft feed) {
    list_.feed = feed.feed;
    list_.feed_state.ipv6_widened = aggregate_ipv6(feed, request_.options.ipv6_aggregate);
    list_.ipv6_widened = own_widened_ + list_.feed_state.ipv6_widened;
    append(feed.v4, own_.v4);
    append(feed.v6, own_.v6);
    feed.flows = std::move(own_.flows);
    list_.content = make_entries(std::move(feed));
  }

  Result<std::array<uint64_t, 2>> parse(
      FeedParts& file, ListDraft& feed, const std::function<bool()>& after_part = [] { return true; }) const {
    const feeds::Options options = {.directions = request_.options.match, .allow_any = request_.options.allow_any};
    std::optional<feeds::Parser> apart;
    if (parsers_ != nullptr) {
      Result<feeds::Parser> made = feeds::Parser::make(*parsers_);
      if (!made) return Error{made.error()};
      apart.emplace(std::move(*made));
    }
    Result<void> parsed;
    bool goes_on = true;
    Result<std::array<uint64_t, 2>> digest = file.visit_lines([&](std::string_view part) {
      if (apart) {
        parsed = apart->read(*request_.format, part, options, feed);
      } else {
        request_.format->read(part, options, feed);
      }
      return goes_on = parsed && after_part();
    });
    if (apart && goes_on) {
      parsed = apart->finish(feed);
      (void)after_part();
    }
    if (!parsed) return Error{request_.path + ": " + parsed.error()};
    return digest;
  }

  // What cannot fit into filter.memory is not kept in memory to find that out: its entries are counted before.
  std::optional<Complaint> too_many(FeedParts& file, const FeedParts::Scan& scan) const {
    if (scan.lines() - scan.empty_lines <= request_.memory_bytes / kLeastHostBytes) return std::nullopt;
    ListDraft part;
    uint64_t bytes = 0;
    const auto counted = parse(file, part, [&] {
      bytes += least_bytes(part);
      part.v4.clear();
      part.v6.clear();
      return bytes <= request_.memory_bytes;
    });
    if (!counted || bytes <= request_.memory_bytes) return std::nullopt;
    return Complaint{
        fmt::format("{} holds more entries than fit into filter.memory: the first {} of its {} lines hold "
                    "{}, which take {} bytes at least, and {} are allowed",
                    request_.path, part.feed.lines, scan.lines(), part.feed.entries, bytes, request_.memory_bytes),
        "raise filter.memory (`controlctl size` says how far), or look at the file"};
  }

  // As many entries as before say nothing when they are others.
  void warn_of_exchange(const List& before) {
    if (before.feed_state.options.ipv6_aggregate != request_.options.ipv6_aggregate) return;
    const uint64_t was = before.feed.entries, gone = count_gone(*before.content, *list_.content);
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
  const bool is_accepted_;
  const List* known_ = nullptr;  // of this path with these options, read by this process
  const List* good_ = nullptr;
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
  const auto widen = [&](Ipv6& first, Ipv6& last) {
    if (first != last) return;
    first &= mask;
    last = first | ~mask;
    widened++;
  };
  for (Entry<Ipv6>& entry : draft.v6) widen(entry.first, entry.last);
  for (Flow& flow : draft.flows) {
    if (flow.family != 6) continue;
    if (flow.src) widen(flow.src->first, flow.src->last);
    if (flow.dst) widen(flow.dst->first, flow.dst->last);
  }
  return widened;
}

}  // namespace weir::control
