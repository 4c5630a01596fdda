#include <algorithm>

#include "tests/bench/filter_lanes.h"

namespace weir::bench {

extern const Lanes k_lanes_sse42, k_lanes_avx2, k_lanes_avx512;

const Lanes& lanes() {
  static const Lanes& best = k_lanes_avx512.usable() ? k_lanes_avx512
                             : k_lanes_avx2.usable() ? k_lanes_avx2
                                                     : k_lanes_sse42;
  return best;
}

KeyStream key_stream(uint64_t n_members, double hit_ratio, uint64_t seed) {
  KeyStream stream = {};
  for (uint64_t& lane : stream.lane) {  // splitmix64 (Steele, Lea, Flood 2014)
    seed += 0x9e3779b97f4a7c15;
    uint64_t z = seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    lane = std::max<uint64_t>(1, z ^ z >> 31);
  }
  stream.n_members = static_cast<uint32_t>(std::max<uint64_t>(1, n_members));
  stream.hits = static_cast<uint32_t>(hit_ratio * 65536 + 0.5);
  return stream;
}

}  // namespace weir::bench
