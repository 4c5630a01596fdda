#include "control/compile/seal.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "common/files.h"

namespace weir::control {

Result<Draft> make_draft(uint64_t size_bytes) {
  Draft draft;
  draft.fd.reset(memfd_create("weir-snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!draft.fd) return errno_error("cannot create a memfd for the snapshot");
  if (ftruncate(draft.fd.get(), static_cast<off_t>(size_bytes)) != 0) {
    return errno_error("cannot grow the snapshot to " + std::to_string(size_bytes) + " bytes");
  }
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, draft.fd.get(), 0);
  if (address == MAP_FAILED) return errno_error("cannot map " + std::to_string(size_bytes) + " bytes");
  draft.mapping = Mapping(address, size_bytes);
  return draft;
}

Result<Sealed> seal(Draft draft) {
  const size_t size_bytes = draft.mapping.size();
  draft.mapping.reset();
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
  if (add_seals(draft.fd.get(), kSeals) != 0) return errno_error("cannot seal the snapshot");
  // The memfd was opened for writing; receivers get a descriptor that was not.
  const std::string path = "/proc/self/fd/" + std::to_string(draft.fd.get());
  Sealed sealed;
  sealed.fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!sealed.fd) return errno_error("cannot reopen the snapshot read-only as " + path);
  const Result<Mapping> mapping = map_read_only(sealed.fd.get(), size_bytes);
  if (!mapping) return mapping.failure();
  sealed.digest = digest_of(mapping->bytes());
  return sealed;
}

}  // namespace weir::control
