#pragma once

#include <cstdint>
#include <vector>

#include "filter/probe/dispatch.h"
#include "filter/probe/exact.h"
#include "filter/read/view.h"
#include "tests/bench/filter_rig.h"

// What is measured, as loops over keys that are made in registers on the way (filter_lanes.h). Each loop owns its
// columns and its stream; what it borrows must outlive it.
namespace weir::bench {

// How keys are cut and how far the memory is asked ahead: batches of `batch` keys, look_ahead of them between asking
// for a batch's lines and testing it. 0: asked for, then tested at once, as a synchronous call does; kNoPrefetch: not
// asked for.
struct Pace {
  unsigned batch = 64;
  int look_ahead = 0;
};
constexpr int kNoPrefetch = -1;
std::string pace_name(Pace pace);

// Making the keys, and nothing else: subtracted from what has them.
Loop make_hashes_only(unsigned batch);
Loop make_columns_only(unsigned batch, uint64_t n_members, double hit_ratio);
Loop make_rows_only(unsigned batch, uint64_t n_members, double hit_ratio);

// The limit: a random line a key, asked for `distance` lines ahead.
Loop gather_rolling(filter::FilterBits filter, unsigned distance);
// The limit at the pace of a lookup: the same calls, the test left out.
Loop gather_paced(const filter::Kernels& kernels, filter::FilterBits filter, Pace pace);

// Random hashes through a filter. Any layout.
Loop lookup_hashes(const filter::Kernels& kernels, weir_layout layout, filter::FilterBits filter, Pace pace);
// 16-byte keys: hash, fetch and test of three batches woven into each other (line8).
Loop lookup_keys_woven(const filter::Kernels& kernels, filter::FilterBits filter, const uint64_t* secret, Pace pace,
                       uint64_t n_members, double hit_ratio);
// 16-byte keys through filter_check, the synchronous call.
Loop lookup_keys_sync(const filter::Kernels& kernels, const filter::ShapeView& shape, unsigned batch,
                      uint64_t n_members, double hit_ratio);
// 16-byte keys through filter and exact stage; the rule of every key found is read.
Loop lookup_rules(const filter::Kernels& kernels, const filter::ShapeView& shape, Pace pace, uint64_t n_members,
                  double hit_ratio);
// 16-byte keys through the exact stage alone.
Loop lookup_table_only(const filter::Kernels& kernels, const filter::ShapeView& shape, Pace pace, uint64_t n_members,
                       double hit_ratio);

// The best of several paces, found by a short look.
template <class Make>
Loop best_of(const std::vector<Pace>& paces, Make make) {
  std::vector<Loop> loops;
  for (Pace pace : paces) loops.push_back(make(pace));
  return loops[fastest(loops)];
}
Loop best_rolling(filter::FilterBits filter);

std::vector<Pace> pipelined_paces();  // look-ahead 1..6 at batches of 16, 32 and 64

}  // namespace weir::bench
