#pragma once

#include <memory>
#include <vector>

#include "common/confine/helpers.h"
#include "common/yaml/events.h"

namespace weir::control {

// Makes processes that parse what others wrote, one for each feed and each policy file: control/policy/feeds/apart.h,
// common/yaml/apart.h. To be started while there are no threads, and nothing that they should not hold. more: other
// jobs that the same process is to make helpers for.
Result<std::unique_ptr<confine::Helpers>> start_parsers(std::vector<const confine::Job*> more = {});

// How a policy file is parsed. parsers: null: by this process.
yaml::Parse yaml_parser(const confine::Helpers* parsers);

}  // namespace weir::control
