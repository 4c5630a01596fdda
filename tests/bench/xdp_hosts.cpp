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

// The finalizer of SplitMix64: one to one, but for the leading bits, which are those of 2000::/3.
uint64_t scatter6(uint64_t x) {
  x = (x + 0x9e3779b97f4a7c15) ^ (x + 0x9e3779b97f4a7c15) >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  x ^= x >> 31;
  return x >> 3 | uint64_t{1} << 61;
}

std::vector<uint64_t> take6(uint32_t number, uint32_t count) {
  std::vector<uint64_t> hosts;
  hosts.reserve(count);
  for (uint32_t i = 0; i < count; i++) hosts.push_back(scatter6(uint64_t{number} + i));
  return hosts;
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

std::vector<uint64_t> members6(uint32_t count) {
  return take6(0, count);
}

namespace {

// sources: the strangers; n_members of listed are added, and all mixed.
template <class Address>
void mix_in(std::vector<Address>& sources, std::vector<Address> listed, uint32_t n_members, uint32_t seed) {
  std::mt19937 random(seed);
  const uint32_t entries = static_cast<uint32_t>(listed.size());
  for (uint32_t drawn = 0; drawn < n_members; drawn++) {
    const uint32_t at = drawn % entries;  // before it: those that were drawn in this turn
    std::swap(listed[at], listed[at + random() % (entries - at)]);
    sources.push_back(listed[at]);
  }
  std::shuffle(sources.begin(), sources.end(), random);
}

}  // namespace

std::vector<uint64_t> draw_sources(unsigned family, uint32_t entries, uint32_t n_members, uint32_t count,
                                   uint32_t seed) {
  static_assert(std::endian::native == std::endian::little);
  const uint32_t first = kFirstStranger + seed % 64 * kStrangersOfSeed;
  const uint32_t n_listed = n_members == 0 ? 0 : entries;
  std::vector<uint64_t> frames;
  frames.reserve(count);
  if (family == 6) {
    std::vector<uint64_t> sources = take6(first, count - n_members);
    mix_in(sources, members6(n_listed), n_members, seed);
    for (const uint64_t source : sources) frames.push_back(__builtin_bswap64(source));
  } else {
    std::vector<uint32_t> sources = take(first, count - n_members);
    mix_in(sources, members(n_listed), n_members, seed);
    for (const uint32_t source : sources) frames.push_back(__builtin_bswap32(source));
  }
  return frames;
}

}  // namespace weir::bench
