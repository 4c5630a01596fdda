#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "common/fd.h"
#include "common/result.h"

namespace weir {

// The whole file, refused above limit_bytes and for anything that is not a regular file.
Result<std::string> read_file(const std::string& path, size_t limit_bytes);

// Replaces path in one step that survives a crash: temporary file beside it (mode), write, fsync, rename, fsync of the
// folder. The parts are written one after the other. When it fails, path is as it was, and no temporary file stays; one
// that a crash left does not hinder it. is_wanted: asked last, just before the rename, for a disk that hung until then:
// when it says no, path stays as it was, and that is no error.
Result<void> write_file_durably(const std::string& path, std::initializer_list<std::span<const std::byte>> parts,
                                unsigned mode, const std::function<bool()>& is_wanted = {});
// The same in a folder that is open, for a user who may write it but not reach it.
Result<void> write_file_durably(const Fd& folder, const std::string& path,
                                std::initializer_list<std::span<const std::byte>> parts, unsigned mode,
                                const std::function<bool()>& is_wanted = {});

// mkdir -p; folders that it makes get the mode, and survive a crash.
Result<void> make_directories(const std::string& path, unsigned mode);

// Read-only mapping of the first size_bytes of fd.
Result<Mapping> map_read_only(int fd, size_t size_bytes);

// fcntl(F_ADD_SEALS), and its answer. Waits up to a second while the kernel holds a page of the memory, as when it
// moves pages on a machine that is short of memory: F_SEAL_WRITE alone would fail with EBUSY then.
int add_seals(int fd, int seals);

// "cannot WHAT PATH: strerror(errno)"
Error errno_error(const std::string& what);

}  // namespace weir
