#pragma once

#include <cstdint>
#include <string>

#include "filter/kernels/kernels.h"

namespace weir::bench {

// Runs one loop over n_keys keys, `batch` of them at a time (1..filter::kMaxBatch), and measures nothing: callgrind
// counts its instructions. what:
//   hash, step            of 16-byte keys; a step has three batches of one size
//   prefetch/L, check/L   L: a layout
//   find/T                exact stage alone, every key a member; T: v4, v4_port, v6, v6_port, flow (bucket types)
//   miss/T, hit/T         the whole pipeline, line8 filter: every key a stranger, a member
// Ends the program when there is no such loop. The sum keeps the compiler from leaving it out.
uint64_t run_counted(const filter::Kernels& kernels, const std::string& what, unsigned batch, uint64_t n_keys);

}  // namespace weir::bench
