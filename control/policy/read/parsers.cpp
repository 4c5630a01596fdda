#include "control/policy/read/parsers.h"

#include "common/yaml/apart.h"
#include "control/policy/feeds/apart.h"

namespace weir::control {

Result<std::unique_ptr<confine::Helpers>> start_parsers(std::vector<const confine::Job*> more) {
  more.push_back(&feeds::kParseJob);
  more.push_back(&yaml::kParseJob);
  return confine::Helpers::start(std::move(more));
}

yaml::Parse yaml_parser(const confine::Helpers* parsers) {
  return parsers == nullptr ? yaml::Parse(yaml::parse_here) : yaml::parse_apart(*parsers);
}

}  // namespace weir::control
