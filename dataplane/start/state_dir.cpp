#include "dataplane/start/state_dir.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "common/again.h"
#include "common/files.h"
#include "common/own_folder.h"

namespace weir::dataplane {

namespace {

constexpr unsigned kPrivateFolder = 0700;
constexpr unsigned kPrivateFile = 0600;
constexpr size_t kBypassBytes = 16;  // "on\n" or "off\n", with room to be told that it is neither

constexpr char kDamaged[] = "overlay.damaged";

std::string overlay_name(wire::Generation base) {
  return fmt::format("overlay-{:016x}-{}.weir", base.epoch, base.number);
}

bool is_overlay_name(std::string_view name) {
  return name.starts_with("overlay-") && name.ends_with(".weir");
}

// What a write that ended early has left has the name of the file that it was to become, and one of these behind it.
std::string_view without_suffix(std::string_view name) {
  for (const std::string_view suffix : {".new", ".new2"}) {
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return name;
}

// path: of the folder.
Result<std::vector<std::string>> names_in(const Fd& folder, const std::string& path) {
  const int again = fcntl(folder.get(), F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(again >= 0 ? fdopendir(again) : nullptr, closedir);
  if (!entries) {
    const Error error = errno_error("cannot list " + path);
    if (again >= 0) close(again);
    return error;
  }
  rewinddir(entries.get());
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = readdir(entries.get())) names.emplace_back(entry->d_name);
  if (errno != 0) return errno_error("cannot list " + path);
  return names;
}

Result<void> read_exactly(int fd, std::span<std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t got = not_interrupted([&] { return read(fd, bytes.data(), bytes.size()); });
    if (got < 0) return errno_error("cannot read " + path);
    if (got == 0) return Error{path + " became shorter while it was read"};
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return {};
}

}  // namespace

Result<StateDir> StateDir::open(const std::string& path, std::span<const uid_t> users) {
  if (Result<void> own = make_own_folder(path, kPrivateFolder, "--state-dir", users); !own) return Error{own.error()};
  StateDir state;
  state.path_ = path;
  state.folder_ = Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!state.folder_) return errno_error("cannot open " + path);
  Result<std::optional<FolderLock>> lock = lock_folder(path);
  if (!lock) return Error{lock.error()};
  if (!*lock) return Error{"the state folder " + path + " is in use by another data plane"};
  state.lock_ = std::move(**lock);
  return state;
}

bool StateDir::is_own(const std::string& name) {
  static constexpr std::string_view kNames[] = {"lock", "snapshot.weir", "bypass", kDamaged};
  const std::string_view file = without_suffix(name);
  return std::find(std::begin(kNames), std::end(kNames), file) != std::end(kNames) || is_overlay_name(file);
}

Result<void> StateDir::check_writable() const {
  // A disk that is read-only now is tried again and again, and what is on it is enforced.
  if (faccessat(folder_.get(), ".", W_OK | X_OK, 0) != 0 && errno != EROFS) return errno_error("cannot write " + path_);
  return {};
}

Result<void> StateDir::save(const std::string& path, std::span<const std::byte> bytes, const Digest& digest) const {
  return write_file_durably(folder_, path, {bytes, std::as_bytes(std::span(digest))}, kPrivateFile);
}

Result<std::optional<size_t>> StateDir::saved_size(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return std::optional<size_t>();
    return errno_error("cannot read " + path);
  }
  if (!S_ISREG(status.st_mode)) return Error{path + " is not a file"};
  const size_t size = static_cast<size_t>(status.st_size);
  if (size <= sizeof(Digest)) return Error{path + " has only " + std::to_string(size) + " bytes"};
  return std::optional<size_t>(size - sizeof(Digest));
}

Result<Digest> StateDir::load(const std::string& path, std::span<std::byte> bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("cannot open " + path);
  Digest digest = {};
  if (Result<void> read = read_exactly(fd.get(), bytes, path); !read) return Error{read.error()};
  const std::span<std::byte> trailer = std::as_writable_bytes(std::span(digest));
  if (Result<void> read = read_exactly(fd.get(), trailer, path); !read) return Error{read.error()};
  return digest;
}

std::string StateDir::overlay_path(wire::Generation base) const {
  return path_ + "/" + overlay_name(base);
}

Result<void> StateDir::remove_overlay(wire::Generation base) const {
  if (unlinkat(folder_.get(), overlay_name(base).c_str(), 0) != 0) {
    if (errno == ENOENT) return {};
    return errno_error("cannot remove " + overlay_path(base));
  }
  if (fsync(folder_.get()) != 0) return errno_error("cannot sync " + path_);
  return {};
}

Result<void> StateDir::remove_overlays_but(wire::Generation base) const {
  const Result<std::vector<std::string>> names = names_in(folder_, path_);
  if (!names) return Error{names.error()};
  for (const std::string& name : *names) {
    const std::string_view file = without_suffix(name);
    if (!is_overlay_name(file) || file == overlay_name(base)) continue;
    if (unlinkat(folder_.get(), name.c_str(), 0) != 0 && errno != ENOENT) {
      return errno_error("cannot remove " + path_ + "/" + name);
    }
  }
  if (fsync(folder_.get()) != 0) return errno_error("cannot sync " + path_);
  return {};
}

Result<void> StateDir::set_overlay_aside(wire::Generation base) const {
  if (renameat(folder_.get(), overlay_name(base).c_str(), folder_.get(), kDamaged) != 0) {
    return errno_error("cannot rename " + overlay_path(base) + " to " + kDamaged);
  }
  return {};
}

Result<void> StateDir::save_bypass(bool on, const std::function<bool()>& is_wanted) const {
  const std::string_view text = on ? "on\n" : "off\n";
  return write_file_durably(folder_, path_ + "/bypass", {std::as_bytes(std::span(text))}, kPrivateFile, is_wanted);
}

Result<bool> StateDir::load_bypass() const {
  const std::string path = path_ + "/bypass";
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return false;
  Result<std::string> text = read_file(path, kBypassBytes);
  if (!text) return Error{text.error()};
  if (*text == "on\n") return true;
  if (*text == "off\n") return false;
  return Error{path + " holds neither on nor off; `controlctl bypass on|off` writes it anew"};
}

}  // namespace weir::dataplane
