#include "control/read/feed_file.h"

#include <sys/stat.h>
#include <time.h>
#include <xxhash.h>

#include <algorithm>
#include <optional>

#include "common/files.h"
#include "control/book/columns.h"

namespace weir::control {
namespace {

// Line numbers of a feed fit 32 bits.
constexpr size_t kMaxFeedBytes = 0xffff'ffff;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// File systems stamp changes by a clock that ticks every few milliseconds, the oldest ones every two seconds: a file
// that was changed less than this before it was read may change again without another stamp.
constexpr int64_t kSettle_ns = 2 * kNsPerSecond;

int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * kNsPerSecond + time.tv_nsec;
}

// Empty: there is no such file; whoever reads it learns why.
std::optional<FileIdentity> identity_of(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino, static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim),
                      nanoseconds(status.st_ctim)};
}

bool has_settled(const FileIdentity& file) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return nanoseconds(now) - std::max(file.changed_ns, file.modified_ns) >= kSettle_ns;
}

// The list that had this feed, best the one of the same name: its entries may be the same, too.
const List* find_feed(const Book* before, const FeedRequest& request, const std::string& name) {
  const List* found = nullptr;
  if (before == nullptr) return nullptr;
  for (const List& list : *before) {
    if (list.feed.path != request.path || list.feed_state.options != request.options) continue;
    if (found == nullptr || list.name == name) found = &list;
  }
  return found;
}

template <class Addr>
void append(std::vector<Entry<Addr>>& to, const std::vector<Entry<Addr>>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

Result<void> read_feed(const FeedRequest& request, ListDraft own, uint64_t own_widened, const Book* before,
                       List& list) {
  const List* known = find_feed(before, request, list.name);
  const auto reuse = [&] {
    list.feed = known->feed;
    list.ipv6_widened = own_widened + list.feed_state.ipv6_widened;
    list.content = replace_own(known->content, std::move(own));
  };
  list.feed.path = request.path;
  const std::optional<FileIdentity> file = identity_of(request.path);
  const bool settled = file && has_settled(*file);
  if (known != nullptr && file == known->feed_state.file && known->feed_state.settled) {
    list.feed_state = known->feed_state;
    reuse();
    return {};
  }
  const Result<std::string> text = weir::read_file(request.path, kMaxFeedBytes);
  if (!text) return Error{text.error()};
  const XXH128_hash_t hash = XXH3_128bits(text->data(), text->size());
  list.feed_state = {.file = file.value_or(FileIdentity{}),
                     .settled = settled && identity_of(request.path) == file,
                     .digest = {hash.low64, hash.high64},
                     .options = request.options};
  if (known != nullptr && known->feed_state.digest == list.feed_state.digest &&
      known->feed_state.file.size_bytes == list.feed_state.file.size_bytes) {
    list.feed_state.ipv6_widened = known->feed_state.ipv6_widened;
    reuse();
    return {};
  }
  ListDraft feed;
  feed.feed.path = request.path;
  request.format->read(*text, {.directions = request.options.match, .allow_any = request.options.allow_any}, feed);
  list.feed = feed.feed;
  list.feed_state.ipv6_widened = aggregate_ipv6(feed, request.options.ipv6_aggregate);
  list.ipv6_widened = own_widened + list.feed_state.ipv6_widened;
  append(feed.v4, own.v4);
  append(feed.v6, own.v6);
  feed.flows = std::move(own.flows);
  list.content = make_entries(std::move(feed));
  return {};
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
