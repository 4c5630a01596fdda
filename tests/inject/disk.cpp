// A disk that is watched, fails or kills: LD_PRELOAD of controld and the data plane. It stands between the program and
// the kernel for everything that changes what is in the folders of WEIR_DISK_FOLDERS (absolute, with colons between
// them), and for nothing else. WEIR_DISK names the file that it shares with the script. What it does to files that
// stdio opens it does not see, nor mappings and remove(3); the script finds out by comparing its journal with what is
// on the disk in the end.
//
// The functions have other names in C++ than for the linker, so that they need not agree with what the headers declare.
#include "tests/inject/disk.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace weir::inject {
namespace {

constexpr int kMostFds = 4096;

struct Open {
  std::atomic<bool> is_ours = false;
  bool is_folder = false;
  uint64_t inode = 0;
  std::string path;
};

Shared* shared = nullptr;
std::vector<std::string>* folders = nullptr;  // never freed, as what follows: threads write until the end
Open* opened = nullptr;                       // by descriptor

__attribute__((constructor)) void begin() {
  const char* path = getenv("WEIR_DISK");
  const char* names = getenv("WEIR_DISK_FOLDERS");
  if (path == nullptr || names == nullptr) return;
  const int fd = static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC));
  struct stat status = {};
  if (fd < 0 || fstat(fd, &status) != 0) abort();
  void* memory = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) abort();
  syscall(SYS_close, fd);
  folders = new std::vector<std::string>;
  for (const char* name = names; *name != '\0';) {
    const char* end = strchrnul(name, ':');
    folders->emplace_back(name, end);
    name = *end == '\0' ? end : end + 1;
  }
  opened = new Open[kMostFds];
  shared = static_cast<Shared*>(memory);
  if (shared->magic != kMagic) abort();
}

bool is_in(const std::string& path, const std::string& folder) {
  if (folder == "/") return path.size() > 1;
  return path.size() > folder.size() && path[folder.size()] == '/' && path.compare(0, folder.size(), folder) == 0;
}

// In one of the folders, or one of them.
bool is_ours(const std::string& path) {
  for (const std::string& folder : *folders) {
    if (path == folder || is_in(path, folder)) return true;
  }
  return false;
}

// One of the folders lies in it.
bool is_above(const std::string& path) {
  for (const std::string& folder : *folders) {
    if (is_in(folder, path)) return true;
  }
  return false;
}

// Absolute, without a slash at its end. Empty: it cannot be ours.
std::string whole(int folder, const char* path) {
  if (shared == nullptr || path == nullptr || *path == '\0') return "";
  std::string text = path;
  if (text[0] != '/') {
    if (folder == AT_FDCWD) {
      char here[PATH_MAX];
      if (syscall(SYS_getcwd, here, sizeof here) < 0) return "";
      text = std::string(here) + "/" + text;
    } else {
      if (folder < 0 || folder >= kMostFds || !opened[folder].is_ours) return "";
      text = opened[folder].path + (text == "." ? "" : "/" + text);
    }
  }
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

const Open* find(int fd) {
  if (shared == nullptr || fd < 0 || fd >= kMostFds || !opened[fd].is_ours) return nullptr;
  return &opened[fd];
}

void forget(int fd) {
  if (shared != nullptr && fd >= 0 && fd < kMostFds) opened[fd].is_ours = false;
}

void die() {
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGKILL);
}

// What becomes of an operation: 0 it is done; else it fails with this error number.
struct Fate {
  int error = 0;
  bool is_halfway = false;  // half of the bytes of a write are taken, the rest is not tried
  Death death = Death::before;
  bool is_deadly = false;
};

Fate begin(Kind kind) {
  const uint64_t number = ++shared->operations;
  Fate fate;
  if (shared->deadly == number) {
    fate.is_deadly = true;
    fate.death = static_cast<Death>(shared->death.load());
    shared->kind_of_deadly = static_cast<uint32_t>(kind);
    if (fate.death == Death::before) die();
    fate.is_halfway = fate.death == Death::halfway && kind == Kind::write;
  }
  const bool is_chosen = number >= shared->first_fault && number < shared->end_of_faults &&
                         (shared->kinds & 1u << static_cast<uint32_t>(kind)) != 0;
  if (!is_chosen) return fate;
  const bool is_first = shared->failed++ == 0;
  if (kind == Kind::write && is_first && shared->is_short != 0) {
    fate.is_halfway = true;
  } else {
    fate.error = static_cast<int>(shared->error);
  }
  return fate;
}

void end(const Fate& fate) {
  if (fate.is_deadly) die();
}

struct Entry {
  Kind kind = Kind::write;
  uint32_t flags = 0;
  uint64_t inode = 0, offset = 0;
  std::string first = {}, second = {};
  const void* data = nullptr;
  size_t data_bytes = 0;
};

void write_down(const Entry& entry) {
  if (shared->journal_bytes == 0) return;
  const size_t bytes = (sizeof(Record) + entry.first.size() + entry.second.size() + entry.data_bytes + 7) / 8 * 8;
  const uint64_t at = shared->used.fetch_add(bytes);
  if (at + bytes > shared->journal_bytes) abort();
  std::byte* place = reinterpret_cast<std::byte*>(shared + 1) + at;
  auto* record = new (place) Record;
  record->bytes = static_cast<uint32_t>(bytes);
  record->kind = entry.kind;
  record->flags = entry.flags;
  record->inode = entry.inode;
  record->offset = entry.offset;
  record->name_bytes = static_cast<uint32_t>(entry.first.size());
  record->second_bytes = static_cast<uint32_t>(entry.second.size());
  record->data_bytes = entry.data_bytes;
  place += sizeof(Record);
  memcpy(place, entry.first.data(), entry.first.size());
  place += entry.first.size();
  memcpy(place, entry.second.data(), entry.second.size());
  place += entry.second.size();
  if (entry.data_bytes != 0) memcpy(place, entry.data, entry.data_bytes);
  record->is_whole.store(1, std::memory_order_release);
}

// Does a change and writes it down. call: as a system call, -1 and errno.
template <class Call>
int change(const Entry& entry, Call call) {
  const Fate fate = begin(entry.kind);
  if (fate.error != 0) {
    errno = fate.error;
    return -1;
  }
  const int result = static_cast<int>(call());
  if (result >= 0) write_down(entry);
  const int error = errno;
  end(fate);
  errno = error;
  return result;
}

void remember(int fd, const std::string& path) {
  if (fd < 0 || fd >= kMostFds) return;
  struct stat status = {};
  if (fstat(fd, &status) != 0) return;
  opened[fd].path = path;
  opened[fd].inode = status.st_ino;
  opened[fd].is_folder = S_ISDIR(status.st_mode);
  opened[fd].is_ours = true;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  const auto call = [&] { return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode)); };
  const std::string name = whole(folder, path);
  if (name.empty() || (!is_ours(name) && !is_above(name))) return call();
  const bool is_change = is_ours(name) && (flags & O_DIRECTORY) == 0 && (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0;
  int fd = -1;
  if (!is_change) {
    fd = call();
  } else {
    const bool is_new = (flags & O_CREAT) != 0 && syscall(SYS_faccessat, folder, path, F_OK) != 0;
    const Kind kind = is_new ? Kind::make : Kind::open;
    const Fate fate = begin(kind);
    if (fate.error != 0) {
      errno = fate.error;
      return -1;
    }
    fd = call();
    const int error = errno;
    struct stat status = {};
    if (fd >= 0 && fstat(fd, &status) == 0) {
      write_down({kind, kind == Kind::open ? static_cast<uint32_t>(flags) : 0, status.st_ino, 0, name});
    }
    end(fate);
    errno = error;
  }
  if (fd >= 0) remember(fd, name);
  return fd;
}

ssize_t write_at(int fd, const void* data, size_t size, const off_t* at) {
  const auto call = [&](size_t bytes) {
    return static_cast<ssize_t>(at != nullptr ? syscall(SYS_pwrite64, fd, data, bytes, *at)
                                              : syscall(SYS_write, fd, data, bytes));
  };
  const Open* file = find(fd);
  if (file == nullptr || file->is_folder) return call(size);
  const Fate fate = begin(Kind::write);
  if (fate.error != 0) {
    errno = fate.error;
    return -1;
  }
  const ssize_t put = call(fate.is_halfway && size > 1 ? size / 2 : size);
  const int error = errno;
  if (put > 0) {
    const off_t end_of_it = at != nullptr ? *at + put : lseek(fd, 0, SEEK_CUR);
    write_down(
        {Kind::write, 0, file->inode, static_cast<uint64_t>(end_of_it - put), {}, {}, data, static_cast<size_t>(put)});
  }
  end(fate);
  errno = error;
  return put;
}

int sync(int fd, long number) {
  const auto call = [&] { return syscall(number, fd); };
  const Open* file = find(fd);
  if (file == nullptr) return static_cast<int>(call());
  return change({Kind::sync, file->is_folder ? 1u : 0u, file->inode, 0, file->is_folder ? file->path : std::string()},
                call);
}

int truncate_to(int fd, off_t size) {
  const auto call = [&] { return syscall(SYS_ftruncate, fd, size); };
  const Open* file = find(fd);
  if (file == nullptr) return static_cast<int>(call());
  return change({Kind::truncate, 0, file->inode, static_cast<uint64_t>(size)}, call);
}

int rename_at(int from, const char* old_path, int to, const char* new_path, unsigned flags) {
  const auto call = [&] {
    return flags == 0 ? syscall(SYS_renameat, from, old_path, to, new_path)
                      : syscall(SYS_renameat2, from, old_path, to, new_path, flags);
  };
  const std::string first = whole(from, old_path), second = whole(to, new_path);
  if (first.empty() || !is_ours(first)) return static_cast<int>(call());
  return change({Kind::rename, flags, 0, 0, first, second}, call);
}

int remove_at(int folder, const char* path, int flags) {
  const auto call = [&] { return syscall(SYS_unlinkat, folder, path, flags); };
  const std::string name = whole(folder, path);
  if (name.empty() || !is_ours(name)) return static_cast<int>(call());
  return change({Kind::remove, flags == 0 ? 0u : 1u, 0, 0, name}, call);
}

int make_folder(int folder, const char* path, mode_t mode) {
  const auto call = [&] { return syscall(SYS_mkdirat, folder, path, mode); };
  const std::string name = whole(folder, path);
  if (name.empty() || !is_ours(name)) return static_cast<int>(call());
  return change({Kind::make, 1, 0, 0, name}, call);
}

}  // namespace
}  // namespace weir::inject

// name: as the linker knows it.
#define WEIR_WRAP(result, name, ...)                                                                     \
  extern "C" __attribute__((visibility("default"))) result weir_wrap_##name(__VA_ARGS__) __asm__(#name); \
  extern "C" result weir_wrap_##name(__VA_ARGS__)

#define WEIR_WRAP_OPEN(name, folder, ...)                                           \
  WEIR_WRAP(int, name, __VA_ARGS__, ...) {                                          \
    va_list rest;                                                                   \
    va_start(rest, flags);                                                          \
    const bool has_mode = (flags & (O_CREAT | O_TMPFILE)) != 0;                     \
    const mode_t mode = has_mode ? static_cast<mode_t>(va_arg(rest, unsigned)) : 0; \
    va_end(rest);                                                                   \
    return weir::inject::open_at(folder, path, flags, mode);                        \
  }
WEIR_WRAP_OPEN(open, AT_FDCWD, const char* path, int flags)
WEIR_WRAP_OPEN(open64, AT_FDCWD, const char* path, int flags)
WEIR_WRAP_OPEN(openat, folder, int folder, const char* path, int flags)
WEIR_WRAP_OPEN(openat64, folder, int folder, const char* path, int flags)
WEIR_WRAP(int, __open_2, const char* path, int flags) {
  return weir::inject::open_at(AT_FDCWD, path, flags, 0);
}
WEIR_WRAP(int, __open64_2, const char* path, int flags) {
  return weir::inject::open_at(AT_FDCWD, path, flags, 0);
}
WEIR_WRAP(int, __openat_2, int folder, const char* path, int flags) {
  return weir::inject::open_at(folder, path, flags, 0);
}
WEIR_WRAP(int, __openat64_2, int folder, const char* path, int flags) {
  return weir::inject::open_at(folder, path, flags, 0);
}
WEIR_WRAP(int, close, int fd) {
  weir::inject::forget(fd);
  return static_cast<int>(syscall(SYS_close, fd));
}

WEIR_WRAP(ssize_t, write, int fd, const void* data, size_t size) {
  return weir::inject::write_at(fd, data, size, nullptr);
}
WEIR_WRAP(ssize_t, pwrite, int fd, const void* data, size_t size, off_t at) {
  return weir::inject::write_at(fd, data, size, &at);
}
WEIR_WRAP(ssize_t, pwrite64, int fd, const void* data, size_t size, off_t at) {
  return weir::inject::write_at(fd, data, size, &at);
}
WEIR_WRAP(int, fsync, int fd) {
  return weir::inject::sync(fd, SYS_fsync);
}
WEIR_WRAP(int, fdatasync, int fd) {
  return weir::inject::sync(fd, SYS_fdatasync);
}
WEIR_WRAP(int, ftruncate, int fd, off_t size) {
  return weir::inject::truncate_to(fd, size);
}
WEIR_WRAP(int, ftruncate64, int fd, off_t size) {
  return weir::inject::truncate_to(fd, size);
}

WEIR_WRAP(int, rename, const char* from, const char* to) {
  return weir::inject::rename_at(AT_FDCWD, from, AT_FDCWD, to, 0);
}
WEIR_WRAP(int, renameat, int folder, const char* from, int other, const char* to) {
  return weir::inject::rename_at(folder, from, other, to, 0);
}
WEIR_WRAP(int, renameat2, int folder, const char* from, int other, const char* to, unsigned flags) {
  return weir::inject::rename_at(folder, from, other, to, flags);
}
WEIR_WRAP(int, unlink, const char* path) {
  return weir::inject::remove_at(AT_FDCWD, path, 0);
}
WEIR_WRAP(int, unlinkat, int folder, const char* path, int flags) {
  return weir::inject::remove_at(folder, path, flags);
}
WEIR_WRAP(int, rmdir, const char* path) {
  return weir::inject::remove_at(AT_FDCWD, path, AT_REMOVEDIR);
}
WEIR_WRAP(int, mkdir, const char* path, mode_t mode) {
  return weir::inject::make_folder(AT_FDCWD, path, mode);
}
WEIR_WRAP(int, mkdirat, int folder, const char* path, mode_t mode) {
  return weir::inject::make_folder(folder, path, mode);
}
