#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/tell/answer/summary.h"

namespace weir::control {

// Of a feed with an url.
struct FetchDetails {
  std::string url;
  uint64_t every_s = 0;
  int64_t tried_at = 0, fetched_at = 0, changed_at = 0, next_at = 0;
  uint64_t bytes = 0;
  uint32_t failures = 0;
  std::string error;
};
void members(Fields& f, FetchDetails& fetch);

struct FeedDetails {
  std::string list, file, state, format, why;
  uint64_t entries = 0, lines = 0, bad = 0, skipped = 0;
  int64_t taken_at = 0, since = 0;
  std::string reason, hint;
  std::vector<FeedNote> warnings = {};
  std::optional<FetchDetails> fetch = {};
};
void members(Fields& f, FeedNote& warning);
void members(Fields& f, FeedDetails& feed);

struct FeedsAnswer {
  wire::Generation generation;
  std::vector<FeedDetails> feeds;
};
void members(Fields& f, FeedsAnswer& answer);

// Of every list with a file; of a pattern or a folder, of each of its files.
std::vector<FeedDetails> feeds_of(const std::vector<ListSummary>& lists);

}  // namespace weir::control
