#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

// Numbers that a peer tells and that this program counts on from: generations, turns, revisions. Only one that this
// program could have reached is believed, so that no peer ends the counting.
namespace weir {

// Larger than any count of publications or pushes: one each millisecond for 50 days.
constexpr uint64_t kMostAhead = uint64_t{1} << 32;
// SQLite and etcd have signed integers of 64 bits. A number that is counted on from here never wraps.
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

// ours: the newest that is known here.
constexpr bool is_possible(uint64_t told, uint64_t ours) {
  return told <= kMostNumber && (told <= ours || told - ours <= kMostAhead);
}

// The newest of what several peers tell, 0 apart: the lowest is believed, and each that is possible after the ones
// below it. 0: none is.
inline uint64_t newest_possible(std::vector<uint64_t> told) {
  std::sort(told.begin(), told.end());
  uint64_t newest = 0;
  for (const uint64_t number : told) {
    if (newest == 0 ? number <= kMostNumber : is_possible(number, newest)) newest = number;
  }
  return newest;
}

}  // namespace weir
