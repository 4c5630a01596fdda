#pragma once

#include <set>
#include <string_view>
#include <vector>

#include "common/result.h"

// EAL's ways to say which lcores there are (eal_common_options.c), read as EAL reads them.
namespace weir::dataplane {

struct LcoreCpus {
  unsigned lcore;
  std::set<unsigned> cpus;  // that it may run on
};

// -l 0,2-3
Result<std::vector<LcoreCpus>> parse_core_list(std::string_view text);
// -c 0xd
Result<std::vector<LcoreCpus>> parse_core_mask(std::string_view text);
// --lcores 0@1,(1-3)@(4,5),7
Result<std::vector<LcoreCpus>> parse_lcores(std::string_view text);

}  // namespace weir::dataplane
