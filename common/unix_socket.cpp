#include "common/unix_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "common/again.h"
#include "common/files.h"
#include "common/own_folder.h"
#include "common/paths.h"
#include "common/thread.h"

namespace weir::unix_socket {

namespace {

constexpr size_t kSpares = 4;   // descriptors; the last one only serves to close who comes
constexpr size_t kReserve = 3;  // sockets: a file that is being opened may take the place of one, for a moment
constexpr std::chrono::milliseconds kPause{1};  // where the kernel has no memory or no descriptor for a connection
constexpr unsigned kFolderMode = 0755;          // others must be able to reach the socket; the folder holds no secret
constexpr const char* kOption = "--socket";

// Descriptors for connections: none is taken between the moment in which a listener gives a spare up, or a reserve a
// connection, and that in which it has another in its place.
std::mutex taking;

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

// As ::connect(), which a signal may interrupt, or a stop of this process (signal(7)): then nothing was done yet.
int connect_to(int socket, const sockaddr_un& address) {
  return not_interrupted([&] { return ::connect(socket, generic(address), sizeof address); });
}

// True when a process listens there, whether or not it lets us in.
Result<bool> somebody_answers(const sockaddr_un& address, Kind kind) {
  const Fd probe(socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0));
  if (!probe) return errno_error(std::string("cannot make a socket to ask who answers on ") + address.sun_path);
  if (connect_to(probe.get(), address) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

// Removes a socket file that was left behind. Anything else in its place stays.
Result<void> clear_stale_socket(const std::string& path, const sockaddr_un& address, Kind kind) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return Error{path + " is in the way of the control socket and is not a socket"};
  const Result<bool> is_alive = somebody_answers(address, kind);
  if (!is_alive) return Error{is_alive.error()};
  if (*is_alive) {
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
  Result<std::thread> thread = start_thread([&] {
    const bool own = unshare(CLONE_FS) == 0;  // some containers forbid it
    const mode_t before = umask(0);
    if (bind(socket, generic(address), sizeof address) != 0) error = errno;
    if (!own) umask(before);
  });
  if (!thread) return Error{std::string("cannot bind ") + address.sun_path + ": " + thread.error()};
  thread->join();
  if (error == 0) return {};
  errno = error;
  return errno_error(std::string("cannot bind ") + address.sun_path);
}

// The owner of the socket's folder may serve there when root, we or he made each folder on the way: whoever is root let
// him have that place. In /tmp anybody could have taken it.
bool is_owner_of_folder(uid_t uid, const std::string& path) {
  const std::string folder = folder_of(path);
  struct stat status = {};
  if (stat(folder.c_str(), &status) != 0 || status.st_uid != uid) return false;
  return static_cast<bool>(check_own_folder(folder, kOption, std::span(&uid, 1)));
}

Result<void> check_server(int socket, const std::string& path) {
  const std::optional<Peer> server = peer_of(socket);
  if (!server) return Error{"who answers on " + path + " is not known"};
  if (server->uid == 0 || server->uid == geteuid() || is_owner_of_folder(server->uid, path)) return {};
  return Error{"a program of user " + user_text(server->uid) + " answers on " + path +
               ": only root, your own user and who was given that folder are believed"};
}

Result<void> connect_at(int socket, const std::string& path) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return Error{address.error()};
  if (connect_to(socket, *address) != 0) return errno_error("cannot connect to " + path);
  return check_server(socket, path);
}

}  // namespace

Result<Listener> Listener::open(const std::string& path, Kind kind, mode_t mode, int backlog,
                                std::optional<gid_t> group) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return Error{address.error()};
  Result<void> own = make_own_folder(folder_of(path), kFolderMode, kOption);
  if (!own) return Error{"no socket at " + path + ": " + own.error()};
  if (Result<void> clear = clear_stale_socket(path, *address, kind); !clear) return Error{clear.error()};
  Fd fd(socket(AF_UNIX, type_of(kind) | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("cannot make a socket");
  if (Result<void> bound = bind_with_mode(fd.get(), *address, mode); !bound) return Error{bound.error()};
  // Nobody is let in before listen(), and nobody else may write the folder: it is our file that gets the group.
  if (group && lchown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    const Error error = errno_error("cannot give " + path + " to group " + std::to_string(*group));
    unlink(path.c_str());
    return error;
  }
  Listener listener(path, std::move(fd));
  if (listen(listener.fd(), backlog) != 0) return errno_error("cannot listen on " + path);
  return listener;
}

Listener::~Listener() {
  if (fd_) unlink(path_.c_str());
}

void Listener::keep_spares() {
  while (spares_.size() < kSpares) {
    Fd spare(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
    if (!spare) return;
    spares_.push_back(std::move(spare));
  }
}

Result<std::optional<Fd>> Listener::accept() {
  bool is_left = false;
  Result<std::optional<Fd>> accepted = take_next(is_left);
  // Whoever waits for connections would find it there at once, and turn without a pause.
  if (is_left) std::this_thread::sleep_for(kPause);
  return accepted;
}

Result<std::optional<Fd>> Listener::take_next(bool& is_left) {
  const std::lock_guard lock(taking);
  keep_spares();
  const auto take = [this, &is_left] {
    Fd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    is_left = !fd && (errno == EMFILE || errno == ENFILE || is_out_of_buffers(errno));
    return fd;
  };
  Fd fd = take();
  if (fd) return std::optional<Fd>(std::move(fd));
  if (errno != EMFILE && errno != ENFILE) return std::optional<Fd>();
  const Error error = errno_error("a connection to " + path_ + " is closed at once");
  if (!spares_.empty()) spares_.pop_back();
  fd = take();
  const bool is_empty = !fd;  // the kernel wants a descriptor before it looks
  if (fd && !spares_.empty()) return std::optional<Fd>(std::move(fd));
  give_back(std::move(fd));
  keep_spares();
  if (is_empty) return std::optional<Fd>();
  return error;
}

bool Listener::has_room() {
  const std::lock_guard lock(taking);
  keep_spares();
  return spares_.size() > 1;
}

void Listener::give_back(Fd connection) {
  if (!connection || spares_.size() >= kSpares) return;
  if (dup3(fd_.get(), connection.get(), O_CLOEXEC) >= 0) spares_.push_back(std::move(connection));
}

Result<Fd> connect(const std::string& path, Kind kind, int timeout_ms) {
  Fd fd(socket(AF_UNIX, type_of(kind) | (timeout_ms == 0 ? SOCK_NONBLOCK : 0), 0));
  if (!fd) return errno_error("cannot make a socket");
  if (Result<void> limited = set_timeout(fd.get(), timeout_ms); !limited) return Error{limited.error()};
  if (Result<void> connected = connect_at(fd.get(), path); !connected) return Error{connected.error()};
  return fd;
}

void Reserve::fill() {
  while (sockets_.size() < kReserve) {
    Fd socket(::socket(AF_UNIX, type_of(kind_) | SOCK_NONBLOCK, 0));
    if (!socket) return;
    sockets_.push_back(std::move(socket));
  }
}

Result<Fd> Reserve::connect(const std::string& path) {
  if (sockets_.size() < kReserve) give_back({});
  if (sockets_.empty()) return errno_error("cannot make a socket");
  Fd socket = std::move(sockets_.back());
  sockets_.pop_back();
  if (Result<void> connected = connect_at(socket.get(), path); !connected) {
    give_back(std::move(socket));
    return Error{connected.error()};
  }
  return socket;
}

void Reserve::give_back(Fd connection) {
  const std::lock_guard lock(taking);
  connection.reset();
  fill();
}

Result<void> set_timeout(int socket, int timeout_ms) {
  const timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
  if (setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) != 0 ||
      setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) != 0) {
    return errno_error("cannot set the time limit of a socket");
  }
  return {};
}

bool has_gone(int socket) {
  pollfd state = {socket, 0, 0};
  return poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0;
}

std::optional<Peer> peer_of(int socket) {
  ucred peer = {};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return Peer{peer.uid, peer.gid, peer.pid};
}

bool is_peer_in_group(int socket, gid_t group) {
  const std::optional<Peer> peer = peer_of(socket);
  if (!peer) return false;
  if (peer->gid == group) return true;
  socklen_t size = 0;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, nullptr, &size) == 0 || errno != ERANGE) return false;
  std::vector<gid_t> groups(size / sizeof(gid_t));
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) return false;
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

}  // namespace weir::unix_socket
