#pragma once

#include <cstdint>
#include <vector>

// The hosts that XDP benchmarks list, and those that they do not: a permutation of the 32-bit numbers scatters 0, 1, 2,
// ... over the unicast space, so that nothing has to be remembered and no list has an order that helps anybody.
namespace weir::bench {

// Host order. Members are those of numbers from 0 on, strangers those from 2^31 on: none is in both.
std::vector<uint32_t> members(uint32_t count);

// Big endian, in random order: so many of `count` are members of a list of `entries`, drawn without putting back (again
// and again when they do not suffice), the rest strangers, each once. A seed gives other ones.
std::vector<uint32_t> draw_sources(uint32_t entries, uint32_t n_members, uint32_t count, uint32_t seed);

}  // namespace weir::bench
