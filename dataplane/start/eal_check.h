#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

// What EAL would refuse, or not find, said in the user's words before it starts. What EAL takes and what works is not
// refused; what this cannot judge is left to EAL.
namespace weir::dataplane {

struct CpuFacts {
  std::set<unsigned> online;  // that the machine has
  std::set<unsigned> usable;  // that this process may be put on
  unsigned most_lcores = 0;   // RTE_MAX_LCORE of the linked DPDK
};
CpuFacts look_at_cpus();

// One line for each error: the argument, the value, the way out.
std::vector<std::string> check_eal_arguments(std::span<const std::string> given, const CpuFacts& cpus,
                                             const std::string& sysfs);

}  // namespace weir::dataplane
