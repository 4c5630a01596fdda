#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/answer/summary.h"

namespace weir::control {

struct FeedDetails {
  std::string list, file, state;
  uint64_t entries = 0, lines = 0, bad = 0;
  int64_t taken_at = 0, since = 0;
  std::string reason, hint;
};
void members(Fields& f, FeedDetails& feed);

struct FeedsAnswer {
  wire::Generation generation;
  std::vector<FeedDetails> feeds;
};
void members(Fields& f, FeedsAnswer& answer);

// Of every list with a file.
std::vector<FeedDetails> feeds_of(const std::vector<ListSummary>& lists);

}  // namespace weir::control
