#pragma once

#include <span>
#include <string>
#include <vector>

// Nothing needs to be prepared to try the program: what the machine lacks is replaced in EAL's arguments.
namespace weir::dataplane {

// What EAL's defaults would need.
struct Machine {
  bool root = false;
  bool huge_pages = false;  // some are free
  bool huge_mount = false;  // a hugetlbfs mount can be written
  int first_cpu = 0;        // that this process may run on
  int pid = 0;
};
Machine look_at_machine();

struct EalArguments {
  std::vector<std::string> arguments;
  std::vector<std::string> notes;  // one clear line for each replacement
  bool own_prefix = false;         // the run-time folder is ours alone, and ours to remove
};
EalArguments complete_eal_arguments(std::span<const std::string> given, const Machine& machine);

}  // namespace weir::dataplane
