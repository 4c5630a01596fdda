#pragma once

#include <optional>
#include <string>

#include "common/yaml/yaml.h"
#include "control/policy/model/fetch.h"

namespace weir::control {

// The `fetch` section of the policy of that path. What is wrong with it has its default in the result.
FetchSettings read_fetch_settings(const std::string& policy_path, yaml::MapReader section);

// The `url` and `every` of a list, together. Empty: it has no url, or one that is an error.
struct FeedUrl {
  std::string url;
  uint64_t every_s;
};
std::optional<FeedUrl> read_feed_url(yaml::MapReader& list);

}  // namespace weir::control
