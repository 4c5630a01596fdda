#pragma once

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/files.h"
#include "common/result.h"

// Values of BPF maps.
namespace weir::xdp {

// Of an array that can be mapped, to be read and written in place.
template <class Value>
Result<Mapping> map_values(const bpf_map* map, size_t n) {
  // The kernel lays values of mmapable arrays out in whole pages.
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = (sizeof(Value) * n + page - 1) / page * page;
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(map), 0);
  if (address == MAP_FAILED) return errno_error(std::string("cannot map the values of ") + bpf_map__name(map));
  return Mapping(address, bytes);
}

template <class Value>
Result<std::vector<Value>> values_of_processors(int map, uint32_t key) {
  static_assert(sizeof(Value) % 8 == 0);
  const int processors = libbpf_num_possible_cpus();
  if (processors < 1) return Error{"cannot tell how many processors there are"};
  std::vector<Value> values(static_cast<size_t>(processors));
  if (bpf_map_lookup_elem(map, &key, values.data()) != 0) return errno_error("cannot read counters");
  return values;
}

// Maps of pages become those of a group of a map of arenas.
Result<void> set_chunks(int arenas, uint32_t group, const std::vector<int>& chunks);

}  // namespace weir::xdp
