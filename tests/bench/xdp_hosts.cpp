#include "tests/bench/xdp_hosts.h"

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

namespace weir::bench {
namespace {

constexpr uint32_t kFirstStranger = 1u << 31;
constexpr uint32_t kStrangersOfSeed = 1u << 23;  // numbers that a seed may take: more than it needs

// The finalizer of MurmurHash3: one to one.
uint32_t scatter(uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ x >> 16;
}

// 1.0.0.0 to 223.255.255.255, without 10/8 and 127/8, which the kernel's stack treats otherwise.
bool is_unicast(uint32_t address) {
  const uint32_t top = address >> 24;
  return top >= 1 && top <= 223 && top != 10 && top != 127;
}

std::vector<uint32_t> take(uint32_t number, uint32_t count) {
  std::vector<uint32_t> hosts;
  hosts.reserve(count);
  for (; hosts.size() < count; number++) {
    const uint32_t address = scatter(number);
    if (is_unicast(address)) hosts.push_back(address);
  }
  return hosts;
}

}  // namespace

std::vector<uint32_t> members(uint32_t count) {
  return take(0, count);
}

std::vector<uint32_t> draw_sources(uint32_t entries, uint32_t n_members, uint32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint32_t> listed = n_members == 0 ? std::vector<uint32_t>{} : members(entries);
  std::vector<uint32_t> sources = take(kFirstStranger + seed % 64 * kStrangersOfSeed, count - n_members);
  for (uint32_t drawn = 0; drawn < n_members; drawn++) {
    const uint32_t at = drawn % entries;  // before it: those that were drawn in this turn
    std::swap(listed[at], listed[at + random() % (entries - at)]);
    sources.push_back(listed[at]);
  }
  std::shuffle(sources.begin(), sources.end(), random);
  static_assert(std::endian::native == std::endian::little);
  for (uint32_t& source : sources) source = __builtin_bswap32(source);
  return sources;
}

}  // namespace weir::bench
