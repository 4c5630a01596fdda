#pragma once

#include <string>
#include <string_view>

#include "common/result.h"
#include "control/policy/model/fetch.h"

// The state of a fetched feed as the text of a file: a line `KEY VALUE` for each member, and a last one with the digest
// of all before it.
namespace weir::control {

std::string write_fetch_state(const FetchState& state);

// The text, and the line of its digest behind it.
std::string with_digest(std::string text);

// Error: what is wrong with it; a state is taken whole or not at all.
Result<FetchState> read_fetch_state(std::string_view text);

}  // namespace weir::control
