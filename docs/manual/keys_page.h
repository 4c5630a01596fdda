#pragma once

#include <string>
#include <vector>

#include "common/yaml/keys.h"

// The keys of a YAML file for a manual page.
namespace weir::manual {

// A heading for each map, then an item for each of its keys.
std::string keys_page(const yaml::Section& section);

// Every key with all that it stands in, as in lists[].guard.max_shrink.
std::vector<std::string> key_paths(const yaml::Section& section);

}  // namespace weir::manual
