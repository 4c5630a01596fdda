#pragma once

#include <cstddef>
#include <functional>

#include "common/fd.h"
#include "common/result.h"

namespace weir {

// Zeroed, private memory; empty when there is none. extra_flags: of mmap, MAP_HUGETLB for one.
Mapping map_anonymous(size_t size_bytes, int extra_flags);

// Faults every page in now, so that none is missing later: neither a fault where time counts, nor SIGBUS for want of a
// huge page. False: there are not so many, or the mapping is empty.
bool populate(const Mapping& mapping);

// Does the work. Error: memory was asked for in it, and there was none.
Result<void> with_memory(const std::function<void()>& work);

}  // namespace weir
