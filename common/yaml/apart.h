#pragma once

#include <chrono>

#include "common/clock.h"
#include "common/confine/helpers.h"
#include "common/yaml/events.h"

// YAML parsed by a process of its own. Whoever takes that over can make up what the file says, and nothing else.
namespace weir::yaml {

extern const confine::Job kParseJob;  // for confine::Helpers::start

// By a new process for each text. helpers: outlive it.
Parse parse_apart(const confine::Helpers& helpers);

// The same, by a process that has the text already and is to be done by the deadline.
Result<void> take_events(const confine::Helper& helper, size_t text_bytes, Clock::time_point deadline,
                         const TakeEvent& take);

}  // namespace weir::yaml
