#pragma once

#include <optional>
#include <string>

#include "common/yaml/yaml.h"
#include "control/model/fetch.h"

namespace weir::control {

// The policy's `fetch` section, which may be absent: null. What is wrong with it goes to diagnostics, and has its
// default in the result.
FetchSettings read_fetch_settings(const yaml::Document& document, const yaml::Node* section, Diagnostics& diagnostics);

// The `url` and `every` of a list, together. Empty: it has no url, or one that is an error.
struct FeedUrl {
  std::string url;
  uint64_t every_s;
};
std::optional<FeedUrl> read_feed_url(yaml::MapReader& list);

}  // namespace weir::control
