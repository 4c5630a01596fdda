#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/agreement/xdp_plane.h"

// What the commands of the program share, and those about policies that change.
namespace weir::agreement {

// One line to standard error.
void tell(const std::string& problem);

// Null: not wanted. Ends the program when it is not to be had.
std::unique_ptr<XdpPlane> open_xdp(bool wanted);

struct SequenceRun {
  uint64_t changes;  // entries, of all policies
  uint64_t steps;    // of each policy
  uint64_t first_seed;
  unsigned n_threads;
  bool only_one;
};
// Each prints what was compared as JSON. 1: something differed.
int run_sequences(const SequenceRun& run, bool with_xdp);
int run_versions(const std::vector<std::string>& files, bool with_xdp);

}  // namespace weir::agreement
