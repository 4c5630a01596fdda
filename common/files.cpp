#include "common/files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/again.h"

namespace weir {

Error errno_error(const std::string& what) {
  return Error{what + ": " + strerror(errno), true};
}

Result<std::string> read_file(const std::string& path, size_t limit_bytes) {
  // Without O_NONBLOCK a FIFO that nobody writes to would block for ever, before fstat() can refuse it.
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return errno_error("cannot open " + path);
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) return errno_error("cannot read " + path);
  if (!S_ISREG(status.st_mode)) return Error{path + " is not a regular file"};
  constexpr size_t kChunk = size_t{1} << 20;
  std::string text;
  text.reserve(static_cast<size_t>(status.st_size) + kChunk);
  for (size_t used = 0;; text.resize(used)) {
    text.resize(used + kChunk);
    const ssize_t got = not_interrupted([&] { return read(fd.get(), text.data() + used, kChunk); });
    if (got < 0) return errno_error("cannot read " + path);
    if (got == 0) {
      text.resize(used);
      return text;
    }
    used += static_cast<size_t>(got);
    if (used > limit_bytes) return Error{path + " is larger than " + std::to_string(limit_bytes) + " bytes"};
  }
}

Result<void> write_file_durably(const std::string& path, std::initializer_list<std::span<const std::byte>> parts,
                                unsigned mode, const std::function<bool()>& is_wanted) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Fd fd(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return errno_error("cannot open folder " + folder);
  return write_file_durably(fd, path, parts, mode, is_wanted);
}

namespace {

// A new file of this name. What stands in its place is what a write that ended early left, or a stranger: it goes, and
// where it cannot go (a folder that holds something) the file gets another name. Empty: errno says why there is none.
Fd create_temporary(const Fd& folder, std::string& name, unsigned mode) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  Fd fd(openat(folder.get(), name.c_str(), kFlags, mode));
  if (fd || errno != EEXIST) return fd;
  if (unlinkat(folder.get(), name.c_str(), 0) != 0 && unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR) != 0) {
    name += '2';
    unlinkat(folder.get(), name.c_str(), 0);
  }
  return Fd(openat(folder.get(), name.c_str(), kFlags, mode));
}

Result<void> write_all(int fd, std::initializer_list<std::span<const std::byte>> parts, const std::string& path) {
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const ssize_t put = not_interrupted([&] { return write(fd, part.data(), part.size()); });
      if (put < 0) return errno_error("cannot write " + path);
      part = part.subspan(static_cast<size_t>(put));
    }
  }
  if (not_interrupted([&] { return fsync(fd); }) != 0) return errno_error("cannot sync " + path);
  return {};
}

}  // namespace

Result<void> write_file_durably(const Fd& folder, const std::string& path,
                                std::initializer_list<std::span<const std::byte>> parts, unsigned mode,
                                const std::function<bool()>& is_wanted) {
  const std::string name = std::filesystem::path(path).filename().string();
  std::string temporary = name + ".new";
  Result<void> done;
  {
    const Fd fd = create_temporary(folder, temporary, mode);
    if (!fd) return errno_error("cannot create " + path + ".new");
    done = write_all(fd.get(), parts, path + ".new");
  }
  const bool is_overtaken = done && is_wanted && !is_wanted();
  if (done && !is_overtaken && renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) != 0) {
    done = errno_error("cannot rename " + path + ".new to " + path);
  }
  if (!done || is_overtaken) {  // what it takes is what may be missing: no room is left
    unlinkat(folder.get(), temporary.c_str(), 0);
    return done;
  }
  if (fsync(folder.get()) != 0) return errno_error("cannot sync the folder of " + path);
  return {};
}

namespace {

// What is written into a new folder is lost with it when the power fails, however well it was synced itself.
Result<void> sync_folder_of(const std::string& path) {
  const std::string above = std::filesystem::path(path).parent_path().string();
  const Fd fd(open(above.empty() ? "." : above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return {};  // one that we may write and not read
  // EINVAL: a file system that keeps nothing.
  if (fsync(fd.get()) != 0 && errno != EINVAL) return errno_error("cannot sync the folder of " + path);
  return {};
}

bool is_folder(const std::string& path) {
  struct stat found = {};
  return stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

}  // namespace

Result<void> make_directories(const std::string& path, unsigned mode) {
  for (size_t end = 1; end != std::string::npos;) {
    end = path.find('/', end);
    const std::string part = path.substr(0, end);
    if (end != std::string::npos) end++;
    if (part.empty()) continue;
    if (mkdir(part.c_str(), mode) == 0) {
      if (Result<void> synced = sync_folder_of(part); !synced) return synced;
    } else if (const int error = errno; error != EEXIST && error != EISDIR && !is_folder(part)) {
      errno = error;
      return errno_error("cannot create folder " + part);
    }
  }
  if (!is_folder(path)) return Error{path + " is not a folder"};
  return {};
}

int add_seals(int fd, int seals) {
  constexpr int kTries = 20;
  constexpr std::chrono::milliseconds kBetween{50};
  for (int i = 1;; i++) {
    const int done = fcntl(fd, F_ADD_SEALS, seals);
    if (done == 0 || errno != EBUSY || i == kTries) return done;
    std::this_thread::sleep_for(kBetween);
  }
}

Result<Mapping> map_read_only(int fd, size_t size_bytes) {
  if (size_bytes == 0) return Error{"cannot map an empty file"};
  void* address = mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return errno_error("cannot map " + std::to_string(size_bytes) + " bytes");
  return Mapping(address, size_bytes);
}

}  // namespace weir
