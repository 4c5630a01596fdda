#include "tests/bench/xdp_peers.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "tests/bench/xdp_hosts.h"
#include "tests/bench/xdp_skeletons.h"
#include "tests/bench/xdp_tally.h"
#include "tests/bench/xdp_traffic.h"

namespace weir::bench {
namespace {

constexpr uint32_t kListed = 1;  // the value of a member
constexpr uint32_t kBatch = 1u << 16;

struct Prefix {
  uint32_t bits, address_be;
};

Error bpf_error(const std::string& what, int result) {
  return Error{fmt::format("{}: {}", what, strerror(result < 0 ? -result : errno))};
}

std::vector<uint32_t> hash_keys(std::span<const uint32_t> members) {
  std::vector<uint32_t> keys(members.begin(), members.end());
  for (uint32_t& key : keys) key = __builtin_bswap32(key);
  return keys;
}

struct Address6 {
  uint64_t half_be[2];
};

std::vector<Address6> hash_keys6(std::span<const uint64_t> members6) {
  std::vector<Address6> keys;
  keys.reserve(members6.size());
  for (const uint64_t upper : members6) {
    keys.push_back({{__builtin_bswap64(upper), __builtin_bswap64(kLowerHalf6)}});
  }
  return keys;
}

std::vector<Prefix> lpm_keys(std::span<const uint32_t> members) {
  std::vector<Prefix> keys;
  keys.reserve(members.size());
  for (const uint32_t member : members) keys.push_back({32, __builtin_bswap32(member)});
  return keys;
}

template <class Key>
Result<void> fill_one_by_one(int map, std::span<const Key> keys) {
  for (const Key& key : keys) {
    if (bpf_map_update_elem(map, &key, &kListed, BPF_ANY) != 0) return bpf_error("BPF_MAP_UPDATE_ELEM", -errno);
  }
  return {};
}

template <class Key>
Result<void> fill_in_batches(int map, std::span<const Key> keys) {
  const std::vector<uint32_t> values(std::min<size_t>(kBatch, keys.size()), kListed);
  for (size_t at = 0; at < keys.size();) {
    uint32_t count = static_cast<uint32_t>(std::min<size_t>(kBatch, keys.size() - at));
    bpf_map_batch_opts options = {};
    options.sz = sizeof options;
    if (bpf_map_update_batch(map, &keys[at], values.data(), &count, &options) != 0) {
      return bpf_error("BPF_MAP_UPDATE_BATCH", -errno);
    }
    at += count;
  }
  return {};
}

// There is no other way to fill this one.
Result<void> fill_bloom(int map, std::span<const uint32_t> keys) {
  for (const uint32_t& key : keys) {
    if (bpf_map_update_elem(map, nullptr, &key, BPF_ANY) != 0) return bpf_error("BPF_MAP_UPDATE_ELEM", -errno);
  }
  return {};
}

struct Part {
  const char* name;
  bpf_program* program;
  bool members, trie, filter, members6;  // maps that it uses
};

std::vector<Part> parts_of(const xdp_peers& skeleton) {
  return {{"parse", skeleton.progs.parse, false, false, false, false},
          {"hash", skeleton.progs.hash, true, false, false, false},
          {"lpm", skeleton.progs.lpm, false, true, false, false},
          {"bloom", skeleton.progs.bloom, true, false, true, false},
          {"bloom_alone", skeleton.progs.bloom_alone, false, false, true, false},
          {"parse6", skeleton.progs.parse6, false, false, false, false},
          {"hash6", skeleton.progs.hash6, false, false, false, true}};
}

Result<void> fill_maps(const xdp_peers& skeleton, std::span<const uint32_t> members,
                       std::span<const uint64_t> members6) {
  const std::vector<uint32_t> keys = hash_keys(members);
  if (bpf_map__autocreate(skeleton.maps.members)) {
    if (Result<void> filled = fill_in_batches<uint32_t>(bpf_map__fd(skeleton.maps.members), keys); !filled) {
      return filled;
    }
  }
  if (bpf_map__autocreate(skeleton.maps.members6)) {
    const std::vector<Address6> keys6 = hash_keys6(members6);
    if (Result<void> filled = fill_in_batches<Address6>(bpf_map__fd(skeleton.maps.members6), keys6); !filled) {
      return filled;
    }
  }
  if (bpf_map__autocreate(skeleton.maps.trie)) {
    if (Result<void> filled = fill_in_batches<Prefix>(bpf_map__fd(skeleton.maps.trie), lpm_keys(members)); !filled) {
      return filled;
    }
  }
  if (bpf_map__autocreate(skeleton.maps.filter)) return fill_bloom(bpf_map__fd(skeleton.maps.filter), keys);
  return {};
}

double map_mib(int map) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(map));
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("memlock:")) return std::stod(line.substr(strlen("memlock:"))) / (1 << 20);
  }
  return 0;
}

}  // namespace

void XdpPeers::Destroy::operator()(xdp_peers* skeleton) const {
  xdp_peers::destroy(skeleton);
}

Result<XdpPeers> XdpPeers::open(std::span<const std::string> names, std::span<const uint32_t> members,
                                std::span<const uint64_t> members6, bool drop_misses) {
  Skeleton skeleton(xdp_peers::open());
  if (!skeleton) return bpf_error("opening the peers", -errno);
  skeleton->rodata->miss_action = drop_misses ? XDP_DROP : XDP_PASS;
  bool uses_members = false, uses_trie = false, uses_filter = false, uses_members6 = false;
  for (const Part& part : parts_of(*skeleton)) {
    const bool wanted = std::find(names.begin(), names.end(), part.name) != names.end();
    bpf_program__set_autoload(part.program, wanted);
    uses_members |= wanted && part.members;
    uses_trie |= wanted && part.trie;
    uses_filter |= wanted && part.filter;
    uses_members6 |= wanted && part.members6;
  }
  const uint32_t count = static_cast<uint32_t>(members.size());
  const bpf_map* const maps[] = {skeleton->maps.members, skeleton->maps.trie, skeleton->maps.filter,
                                 skeleton->maps.members6};
  const bool used[] = {uses_members, uses_trie, uses_filter, uses_members6};
  const uint32_t sizes[] = {count, count, bloom_entries(count), static_cast<uint32_t>(members6.size())};
  for (size_t i = 0; i < std::size(maps); i++) {
    bpf_map* map = const_cast<bpf_map*>(maps[i]);
    bpf_map__set_autocreate(map, used[i]);
    bpf_map__set_max_entries(map, sizes[i]);
  }
  if (const int result = xdp_peers::load(skeleton.get()); result != 0) return bpf_error("loading the peers", result);
  if (Result<void> filled = fill_maps(*skeleton, members, members6); !filled) return Error{filled.error()};
  return XdpPeers(std::move(skeleton));
}

int XdpPeers::program_fd(const std::string& name) const {
  for (const Part& part : parts_of(*skeleton_)) {
    if (name == part.name) return bpf_program__fd(part.program);
  }
  return -1;
}

double XdpPeers::list_mib(const std::string& name) const {
  double mib = 0;
  for (const Part& part : parts_of(*skeleton_)) {
    if (name != part.name) continue;
    for (const auto& [used, map] :
         {std::pair(part.members, skeleton_->maps.members), std::pair(part.trie, skeleton_->maps.trie),
          std::pair(part.filter, skeleton_->maps.filter), std::pair(part.members6, skeleton_->maps.members6)}) {
      if (used) mib += map_mib(bpf_map__fd(map));
    }
  }
  return mib;
}

XdpCounts XdpPeers::counts() const {
  const auto sum = [this](uint32_t key) {
    std::vector<uint64_t> counts(static_cast<size_t>(libbpf_num_possible_cpus()));
    if (bpf_map_lookup_elem(bpf_map__fd(skeleton_->maps.tallies), &key, counts.data()) != 0) return uint64_t{0};
    uint64_t total = 0;
    for (const uint64_t count : counts) total += count;
    return total;
  };
  return {sum(XDP_TALLY_HIT), sum(XDP_TALLY_MISS)};
}

uint32_t bloom_entries(uint32_t members) {
  // Five hashes and c bits a key let (1 - e^(-5/c))^5 through: 0.5 % at c = 11.75. The kernel takes 7 bits an entry
  // (max_entries * hashes * 7 / 5, kernel/bpf/bloom_filter.c).
  return static_cast<uint32_t>(static_cast<double>(members) * 11.75 / 7) + 1;
}

Result<double> time_fill(Fill fill, std::span<const uint32_t> members) {
  const uint32_t count = static_cast<uint32_t>(members.size());
  const std::vector<uint32_t> keys = hash_keys(members);
  const std::vector<Prefix> prefixes = lpm_keys(members);
  bpf_map_create_opts options = {};
  options.sz = sizeof options;
  const double start = wall_ns();
  Fd map;
  Result<void> filled;
  switch (fill) {
    case Fill::hash:
    case Fill::hash_batch:
      map.reset(bpf_map_create(BPF_MAP_TYPE_HASH, "members", sizeof(uint32_t), sizeof kListed, count, &options));
      if (!map) break;
      filled =
          fill == Fill::hash ? fill_one_by_one<uint32_t>(map.get(), keys) : fill_in_batches<uint32_t>(map.get(), keys);
      break;
    case Fill::lpm:
    case Fill::lpm_batch:
      options.map_flags = BPF_F_NO_PREALLOC;
      map.reset(bpf_map_create(BPF_MAP_TYPE_LPM_TRIE, "trie", sizeof(Prefix), sizeof kListed, count, &options));
      if (!map) break;
      filled = fill == Fill::lpm ? fill_one_by_one<Prefix>(map.get(), prefixes)
                                 : fill_in_batches<Prefix>(map.get(), prefixes);
      break;
    case Fill::bloom:
      map.reset(
          bpf_map_create(BPF_MAP_TYPE_BLOOM_FILTER, "filter", 0, sizeof(uint32_t), bloom_entries(count), &options));
      if (!map) break;
      filled = fill_bloom(map.get(), keys);
      break;
  }
  const double seconds = (wall_ns() - start) / 1e9;
  if (!map) return bpf_error("creating a map", -errno);
  if (!filled) return Error{filled.error()};
  return seconds;
}

}  // namespace weir::bench
