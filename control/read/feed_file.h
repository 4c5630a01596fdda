#pragma once

#include <memory>
#include <string>

#include "common/result.h"
#include "control/model/list.h"
#include "control/read/feeds/format.h"

namespace weir::control {

// How one feed is to be read.
struct FeedRequest {
  std::string path;
  const feeds::Format* format;
  FeedOptions options;
};

// Fills the list's feed, feed_state, ipv6_widened and content: its own entries (own, as they were read; own_widened of
// them by ipv6_aggregate) and those of the feed. before: the lists as they were, or null. A feed of theirs with the
// same path and options is not read again when its file is the same and had settled, and is not parsed again when its
// bytes are. Error: the file cannot be read.
Result<void> read_feed(const FeedRequest& request, ListDraft own, uint64_t own_widened, const Book* before, List& list);

// Widens every single IPv6 address of the draft, with or without a port, to this length. Returns how many there were.
uint64_t aggregate_ipv6(ListDraft& draft, uint8_t prefix_bits);

}  // namespace weir::control
