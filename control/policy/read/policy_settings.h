#pragma once

#include <optional>
#include <string>

#include "common/yaml/yaml.h"
#include "control/policy/feeds/format.h"
#include "control/policy/model/capture.h"
#include "control/policy/model/fetch.h"
#include "control/policy/model/policy.h"
#include "control/policy/read/policy_file.h"

// These functions read the settings of a policy: what stands beside entries and feeds.
namespace weir::control {

// What a policy says of lists beside their entries and feeds. What is wrong goes to the diagnostics, and has its
// default in the result.

// The `guard` of a list.
Guard read_guard(yaml::MapReader section);

// `dynamic`, `max_entries` and `max_ttl`. Empty: it is not dynamic.
std::optional<Dynamic> read_dynamic(yaml::MapReader& list, bool allow_any);

uint8_t read_ipv6_aggregate(yaml::MapReader& list, bool allow_any);

// The policy's `history`.
HistorySettings read_history(yaml::MapReader section);
// The policy's `plan`.
PlanSettings read_plan(yaml::MapReader section);
// The policy's `metrics`.
MetricsSettings read_metrics(yaml::MapReader section);

// What a list's `format` says.
struct FormatChoice {
  const feeds::Format* format = nullptr;  // null: `auto`
  std::string settings;                   // feeds::Options::settings

  std::string text() const;  // "csv(address=2,port=3)"
};

// `format: NAME` or `format: {NAME: {SETTING: VALUE, ...}}`. Empty when there was an error.
std::optional<FormatChoice> read_format(const PolicyFile& file, yaml::MapReader& list);

// The `fetch` section of the policy of that path. What is wrong with it has its default in the result.
FetchSettings read_fetch_settings(const std::string& policy_path, yaml::MapReader section);

// The `url` and `every` of a list, together. Empty: it has no url, or one that is an error.
struct FeedUrl {
  std::string url;
  uint64_t every_s;
};
std::optional<FeedUrl> read_feed_url(yaml::MapReader& list);

// `fleet`; errors go to the reader's diagnostics. Relative paths begin at the folder of the file that it stands in.
FleetSettings read_fleet_settings(const std::string& policy_path, yaml::MapReader reader);

// section: of the policy of that path. Its filter is not compiled yet, since that may ask the system for names.
CaptureSettings read_capture_settings(const std::string& policy_path, yaml::MapReader section);

// Compiles the filter, which stands there; an error of libpcap becomes a diagnostic. filter: null: there is none.
void check_capture_filter(const PolicyFile& file, const yaml::Node* filter);

}  // namespace weir::control
