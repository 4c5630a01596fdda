#include "control/read/parsers.h"

#include "common/yaml/apart.h"
#include "control/read/feeds/apart.h"

namespace weir::control {

Result<std::unique_ptr<confine::Helpers>> start_parsers() {
  return confine::Helpers::start({&feeds::kParseJob, &yaml::kParseJob});
}

yaml::Parse yaml_parser(const confine::Helpers* parsers) {
  return parsers == nullptr ? yaml::Parse(yaml::parse_here) : yaml::parse_apart(*parsers);
}

}  // namespace weir::control
