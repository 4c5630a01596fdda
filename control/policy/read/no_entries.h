#pragma once

#include <string>

#include "control/policy/model/feed.h"

// What is said of a feed without entries: as what it was read, why, what it looks like, and how it would be read.
namespace weir::control {

FeedNote is_empty();
FeedNote no_entries(const FeedReport& feed);

// "line 1: not an address: TEXT"
std::string sample_text(const LineSample& sample);

}  // namespace weir::control
