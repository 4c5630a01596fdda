#include "common/unix_socket.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <thread>

#include "common/files.h"

namespace weir::unix_socket {

namespace {

constexpr unsigned kFolderMode = 0755;  // others must be able to reach the socket; the folder holds no secret

int type_of(Kind kind) {
  return (kind == Kind::stream ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC;
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{"socket path `" + path + "` has " + std::to_string(path.size()) +
                 " characters; the system allows 1 to " + std::to_string(sizeof address.sun_path - 1)};
  }
  memcpy(address.sun_path, path.data(), path.size());
  return address;
}

const sockaddr* generic(const sockaddr_un& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// True when a process listens there, whether or not it lets us in.
bool somebody_answers(const sockaddr_un& address, Kind kind) {
  const Fd probe(socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), generic(address), sizeof address) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

// Removes a socket file that was left behind. Anything else in its place stays.
Result<void> clear_stale_socket(const std::string& path, const sockaddr_un& address, Kind kind) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return Error{path + " is in the way of the control socket and is not a socket"};
  if (somebody_answers(address, kind)) {
    return Error{"another program answers on " + path +
                 " already: stop it, or choose another --socket and --state-dir"};
  }
  if (unlink(path.c_str()) != 0) return errno_error("cannot replace " + path);
  return {};
}

// bind() gives the file the mode of the socket less the umask (unix_bind_bsd of net/unix/af_unix.c). The umask belongs
// to the whole process, so a thread that has taken its own does it: files that others make meanwhile keep theirs.
Result<void> bind_with_mode(int socket, const sockaddr_un& address, mode_t mode) {
  if (fchmod(socket, mode) != 0) return errno_error("cannot set the mode of a socket");
  int error = 0;
  std::thread([&] {
    const bool own = unshare(CLONE_FS) == 0;  // some containers forbid it
    const mode_t before = umask(0);
    if (bind(socket, generic(address), sizeof address) != 0) error = errno;
    if (!own) umask(before);
  }).join();
  if (error == 0) return {};
  errno = error;
  return errno_error(std::string("cannot bind ") + address.sun_path);
}

Fd make_spare(const Fd& fd) {
  return Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
}

}  // namespace

Result<Listener> Listener::open(const std::string& path, Kind kind, mode_t mode, int backlog) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return Error{address.error()};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) {
    if (Result<void> made = make_directories(folder, kFolderMode); !made) return Error{made.error()};
  }
  if (Result<void> clear = clear_stale_socket(path, *address, kind); !clear) return Error{clear.error()};
  Fd fd(socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("cannot make a socket");
  if (Result<void> bound = bind_with_mode(fd.get(), *address, mode); !bound) return Error{bound.error()};
  Fd spare = make_spare(fd);
  Listener listener(path, std::move(fd), std::move(spare));
  if (listen(listener.fd(), backlog) != 0) return errno_error("cannot listen on " + path);
  return listener;
}

Listener::~Listener() {
  if (fd_) unlink(path_.c_str());
}

Result<std::optional<Fd>> Listener::accept() {
  Fd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (fd) return std::optional<Fd>(std::move(fd));
  if (errno != EMFILE && errno != ENFILE) return std::optional<Fd>();
  const Error error = errno_error("a connection to " + path_ + " is closed at once");
  spare_.reset();
  Fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  spare_ = make_spare(fd_);
  return error;
}

Result<Fd> connect(const std::string& path, Kind kind, int timeout_ms) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return Error{address.error()};
  Fd fd(socket(AF_UNIX, type_of(kind) | (timeout_ms == 0 ? SOCK_NONBLOCK : 0), 0));
  if (!fd) return errno_error("cannot make a socket");
  if (Result<void> limited = set_timeout(fd.get(), timeout_ms); !limited) return Error{limited.error()};
  if (::connect(fd.get(), generic(*address), sizeof *address) != 0) return errno_error("cannot connect to " + path);
  return fd;
}

Result<void> set_timeout(int socket, int timeout_ms) {
  const timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0) {
    return errno_error("cannot set the time limit of a socket");
  }
  return {};
}

std::optional<uid_t> peer_uid(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid;
}

}  // namespace weir::unix_socket
