#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"
#include "control/policy/model/fetch.h"

// This file keeps how a fetched feed stands, and says when it is asked for again.
namespace weir::control {

// The state of a fetched feed as the text of a file: a line `KEY VALUE` for each member, and a last one with the digest
// of all before it.

std::string write_fetch_state(const FetchState& state);

// The text, and the line of its digest behind it.
std::string with_digest(std::string text);

// Error: what is wrong with it; a state is taken whole or not at all.
Result<FetchState> read_fetch_state(std::string_view text);

// The time of the next request for a feed. random: from 0 to 1.

constexpr int64_t kFirstRetry_s = 30, kMostRetry_s = 3600, kMostRetryAfter_s = 86'400;

// After an answer as it should be: in `every`, 10 % more or less, so that not all ask at once.
int64_t next_after_success(int64_t now, uint64_t every_s, double random);

// After so many failures in a row: 30 s, then twice as long each time, at most `every` or an hour, whichever is longer;
// of that half at least, and by chance up to all of it. Not before the server wants to be asked again, which it may put
// off for a day.
int64_t next_after_failure(int64_t now, uint64_t every_s, uint32_t failures, uint64_t retry_after_s, double random);

// What a state from disk says, by the clock of now: a time that is further away than any of the above is of a clock
// that went wrong.
int64_t next_of(const FetchState& state, int64_t now, uint64_t every_s);

}  // namespace weir::control
