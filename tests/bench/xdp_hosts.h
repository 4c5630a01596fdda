#pragma once

#include <cstdint>
#include <vector>

// The hosts that XDP benchmarks list, and those that they do not: a permutation of the 32-bit numbers scatters 0, 1, 2,
// ... over the unicast space, so that nothing has to be remembered and no list has an order that helps anybody.
namespace weir::bench {

// Host order. Members are those of numbers from 0 on, strangers those from 2^31 on: none is in both.
std::vector<uint32_t> members(uint32_t count);
// The upper halves of addresses of IPv6 that end in kLowerHalf6: hosts of global unicast space (2000::/3), each in a
// /64 of its own.
std::vector<uint64_t> members6(uint32_t count);
constexpr uint64_t kLowerHalf6 = 1;

// The bytes of an address, or of its upper half, as a frame has them, in random order: so many of `count` are members
// of a list of `entries`, drawn without putting back (again and again when they do not suffice), the rest strangers,
// each once. A seed gives other ones.
std::vector<uint64_t> draw_sources(unsigned family, uint32_t entries, uint32_t n_members, uint32_t count,
                                   uint32_t seed);

}  // namespace weir::bench
