#include "common/memory.h"

#include <sys/mman.h>

#include <new>
#include <stdexcept>

namespace weir {

Mapping map_anonymous(size_t size_bytes, int extra_flags) {
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra_flags, -1, 0);
  return address == MAP_FAILED ? Mapping() : Mapping(address, size_bytes);
}

bool populate(const Mapping& mapping) {
  return mapping && madvise(mapping.bytes().data(), mapping.size(), MADV_POPULATE_WRITE) == 0;
}

Result<void> with_memory(const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const std::bad_alloc&) {
    return Error{"there is not enough memory for it"};
  } catch (const std::length_error&) {
    return Error{"it needs more memory than there can be"};
  }
}

}  // namespace weir
