#include "dataplane/start/state_dir.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/again.h"
#include "common/files.h"
#include "common/own_folder.h"

namespace weir::dataplane {

namespace {

constexpr unsigned kPrivateFolder = 0700;
constexpr unsigned kPrivateFile = 0600;
constexpr size_t kBypassBytes = 16;  // "on\n" or "off\n", with room to be told that it is neither

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

std::span<const std::string> StateDir::file_names() {
  static const std::string names[] = {"lock",   "snapshot.weir", "snapshot.weir.new", "snapshot.weir.new2",
                                      "bypass", "bypass.new",    "bypass.new2"};
  return names;
}

Result<void> StateDir::check_writable() const {
  // A disk that is read-only now is tried again and again, and what is on it is enforced.
  if (faccessat(folder_.get(), ".", W_OK | X_OK, 0) != 0 && errno != EROFS) return errno_error("cannot write " + path_);
  return {};
}

Result<void> StateDir::save_snapshot(std::span<const std::byte> bytes, const Digest& digest) const {
  return write_file_durably(folder_, snapshot_path(), {bytes, std::as_bytes(std::span(digest))}, kPrivateFile);
}

Result<std::optional<size_t>> StateDir::saved_snapshot_size() const {
  struct stat status = {};
  if (stat(snapshot_path().c_str(), &status) != 0) {
    if (errno == ENOENT) return std::optional<size_t>();
    return errno_error("cannot read " + snapshot_path());
  }
  if (!S_ISREG(status.st_mode)) return Error{snapshot_path() + " is not a file"};
  const size_t size = static_cast<size_t>(status.st_size);
  if (size <= sizeof(Digest)) return Error{snapshot_path() + " has only " + std::to_string(size) + " bytes"};
  return std::optional<size_t>(size - sizeof(Digest));
}

Result<Digest> StateDir::load_snapshot(std::span<std::byte> bytes) const {
  Fd fd(::open(snapshot_path().c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno_error("cannot open " + snapshot_path());
  Digest digest = {};
  if (Result<void> read = read_exactly(fd.get(), bytes, snapshot_path()); !read) return Error{read.error()};
  const std::span<std::byte> trailer = std::as_writable_bytes(std::span(digest));
  if (Result<void> read = read_exactly(fd.get(), trailer, snapshot_path()); !read) return Error{read.error()};
  return digest;
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
