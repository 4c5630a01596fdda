#include "filter/read/sealed.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"

namespace weir::filter {

namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
}

Result<size_t> check_sealed(int fd, uint64_t limit_bytes, const std::string& limit) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return Error{"the descriptor is not a memory file (memfd) that allows seals"};
  if ((seals & kSeals) != kSeals) return Error{"the memory file lacks seals: SHRINK, GROW, WRITE and SEAL are needed"};
  struct stat status = {};
  if (fstat(fd, &status) != 0) return errno_error("cannot tell the size of the memory file");
  const uint64_t size = static_cast<uint64_t>(status.st_size);
  if (size > limit_bytes) {
    return Error{"the snapshot has " + std::to_string(size) + " bytes; " + limit};
  }
  weir_snapshot_header header;
  if (size < sizeof header || pread(fd, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) {
    return Error{"the memory file of " + std::to_string(size) + " bytes is shorter than a snapshot header"};
  }
  if (header.magic != WEIR_SNAPSHOT_MAGIC) return Error{"the memory file is not a snapshot (magic number)"};
  if (header.version != WEIR_SNAPSHOT_VERSION) {
    return Error{"snapshot of version " + std::to_string(header.version) + "; version " +
                 std::to_string(WEIR_SNAPSHOT_VERSION) + " is enforced here"};
  }
  if (header.total_bytes != size) {
    return Error{"the snapshot's header says " + std::to_string(header.total_bytes) + " bytes, the memory file has " +
                 std::to_string(size)};
  }
  return size;
}

}  // namespace weir::filter
