#pragma once

#include <cstdint>

#include "common/digest.h"
#include "common/fd.h"
#include "common/result.h"

// seal: the snapshot's bytes live in a memfd that, once sealed, nobody can change any more, not even its maker.
namespace weir::control {

// A new memfd of zeros, mapped for writing.
struct Draft {
  Fd fd;
  Mapping mapping;
};
Result<Draft> make_draft(uint64_t size_bytes);

struct Sealed {
  Fd fd;  // read-only, sealed SHRINK | GROW | WRITE | SEAL
  Digest digest;
};
// Unmaps the draft first: F_SEAL_WRITE fails while a writable mapping exists.
Result<Sealed> seal(Draft draft);

}  // namespace weir::control
