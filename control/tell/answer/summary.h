#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/policy.h"
#include "control/tell/answer/parts.h"
#include "filter/read/view.h"

namespace weir::control {

// What people are told of a list.
struct ListSummary {
  std::string name, comment;
  weir_action action = WEIR_DROP;
  weir_mode mode = WEIR_ENFORCE;
  uint8_t match = 0;  // mask of weir_direction; 0: not known (last good)
  std::string file;
  uint64_t v4 = 0, v6 = 0, flows = 0;  // entries of each kind; 0 when only the sum is known (last good)
  uint64_t entries = 0;
  uint8_t ipv6_aggregate = 128;
  uint64_t ipv6_widened = 0;    // addresses that `ipv6_aggregate` made networks
  FeedReport feed;              // of a pattern or a folder: the sums of all of its files
  std::vector<FeedFile> feeds;  // each
  std::optional<Dynamic> dynamic = {};
};

std::vector<ListSummary> summarise(const Book& book);
// All that a last good snapshot itself tells.
std::vector<ListSummary> summarise(const filter::SnapshotView& snapshot);

std::vector<RefusedFeed> refused_feeds(const std::vector<ListSummary>& lists);
std::vector<WarnedFeed> warned_feeds(const std::vector<ListSummary>& lists);

}  // namespace weir::control
