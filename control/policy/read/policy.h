#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/diagnostic.h"
#include "common/yaml/events.h"
#include "control/policy/model/policy.h"
#include "control/policy/read/feed_file.h"

namespace weir::control {

// Reads and checks the policy file, then every feed (docs/use/policy.md): all diagnostics of the file go to
// `diagnostics`, bad feed lines into each list's FeedReport. Empty when there was an error. now: Unix seconds; entries
// that have expired by then are warnings, and stay. history: what was there before, and who parses files. Entries of
// feeds that have not changed are taken from it, and those of feeds that are refused: each of these is a warning, and
// says so in its list (control/policy/read/feed_file.h).
std::optional<Policy> read_policy(const std::string& path, Diagnostics& diagnostics, uint64_t now = unix_now(),
                                  const FeedHistory& history = {});
// The same of a text that was read before: text as if it were the file `path`.
std::optional<Policy> read_policy_text(const std::string& path, std::string text, Diagnostics& diagnostics,
                                       uint64_t now, const FeedHistory& history);

// The feeds of a policy that was read, of those lists that have an url.
std::vector<FetchedFeed> fetched_feeds(const Policy& policy);

// Where a policy keeps its state, who enforces it, and where metrics are served: what a start has to know before it
// reads feeds. Empty: there is an error in it, which read_policy() tells.
struct Places {
  std::optional<std::string> state_dir;
  std::optional<std::vector<TargetSpec>> targets;
  std::optional<MetricsSettings> metrics;
  std::optional<FleetSettings> fleet;
};
Places read_places(const std::string& path, const confine::Helpers* parsers = nullptr);

// The file alone, without opening feeds (fuzzing; text as if it were the file `path`, parse as it is to be parsed).
std::optional<Policy> parse_policy(const std::string& path, std::string text, Diagnostics& diagnostics,
                                   uint64_t now = unix_now(), const yaml::Parse& parse = yaml::parse_here);

}  // namespace weir::control
