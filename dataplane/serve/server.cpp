#include "dataplane/serve/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "common/files.h"

namespace weir::dataplane {

namespace {

constexpr int kBacklog = 16;
constexpr unsigned kFolderMode = 0755;  // others must be able to reach the socket; the folder holds no secret

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

// True when a process listens there, whether or not it lets us in.
bool somebody_answers(const sockaddr_un& address) {
  Fd probe(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
  return errno != ECONNREFUSED && errno != ENOENT;
}

// Removes a socket file that was left behind. Anything else in its place stays.
Result<void> clear_stale_socket(const std::string& path, const sockaddr_un& address) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return Error{path + " is in the way of the control socket and is not a socket"};
  if (somebody_answers(address)) {
    return Error{"another program answers on " + path + ": stop it, or choose another --socket and --state-dir"};
  }
  if (unlink(path.c_str()) != 0) return errno_error("cannot replace " + path);
  return {};
}

}  // namespace

Result<Listener> Listener::open(const std::string& path, bool open_to_all) {
  const Result<sockaddr_un> address = address_of(path);
  if (!address) return Error{address.error()};
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty()) {
    if (Result<void> made = make_directories(folder, kFolderMode); !made) return Error{made.error()};
  }
  if (Result<void> clear = clear_stale_socket(path, *address); !clear) return Error{clear.error()};
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno_error("cannot make a socket");
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return errno_error("cannot bind " + path);
  }
  Listener listener(path, std::move(fd));
  if (chmod(path.c_str(), open_to_all ? 0666 : 0600) != 0) return errno_error("cannot set the mode of " + path);
  if (listen(listener.fd(), kBacklog) != 0) return errno_error("cannot listen on " + path);
  return listener;
}

Listener::~Listener() {
  if (fd_) unlink(path_.c_str());
}

Answer refuse(std::string_view reason) {
  wire::TextBody text;
  wire::set_text(text.text, reason);
  const std::span<const std::byte> bytes = wire::bytes_of(text);
  return {wire::Type::refused, {bytes.begin(), bytes.end()}};
}

void Server::run(int stop_fd) {
  while (!serve_once(stop_fd, -1)) {
  }
}

bool Server::serve_once(int stop_fd, int timeout_ms) {
  std::vector<pollfd> ready = {{stop_fd, POLLIN, 0}, {listener_.fd(), POLLIN, 0}};
  for (const Client& client : clients_) ready.push_back({client.fd.get(), POLLIN, 0});
  if (poll(ready.data(), ready.size(), timeout_ms) <= 0) return false;
  if (ready[0].revents != 0) return true;
  for (size_t i = 0; i < clients_.size(); i++) {
    if (ready[i + 2].revents != 0 && !serve(clients_[i])) clients_[i].fd.reset();
  }
  std::erase_if(clients_, [](const Client& client) { return !client.fd; });
  if (ready[1].revents != 0) accept_client();
  return false;
}

void Server::accept_client() {
  Fd fd(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return;  // gone again, or no descriptor left: poll() says when there is one
  std::string why;
  if (!may_speak(fd.get(), why)) {
    (void)wire::send(fd.get(), wire::Type::refused, 0, refuse(why).body);
    return;
  }
  if (clients_.size() == kMaxClients) {
    const auto silent = std::min_element(clients_.begin(), clients_.end(),
                                         [](const Client& a, const Client& b) { return a.last_heard < b.last_heard; });
    (void)wire::send(silent->fd.get(), wire::Type::refused, 0, refuse("closed: too many clients").body);
    clients_.erase(silent);
  }
  clients_.push_back({std::move(fd), requests_});
}

bool Server::may_speak(int fd, std::string& why) const {
  ucred peer = {};
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    why = "the peer's user is unknown";
    return false;
  }
  if (peer.uid == 0 || peer.uid == geteuid()) return true;
  if (std::find(allow_uid_.begin(), allow_uid_.end(), peer.uid) != allow_uid_.end()) return true;
  why = "user " + std::to_string(peer.uid) + " may not speak to this data plane; socket.allow_uid names who may";
  return false;
}

bool Server::serve(Client& client) {
  Result<wire::Message> request = wire::receive(client.fd.get());
  if (!request) {  // also an orderly end: then nobody reads the refusal
    (void)wire::send(client.fd.get(), wire::Type::refused, 0, refuse(request.error()).body);
    return false;
  }
  client.last_heard = ++requests_;
  const Answer answer = handler_(*request);
  return wire::send(client.fd.get(), answer.type, request->header.sequence, answer.body) &&
         answer.type != wire::Type::refused;
}

}  // namespace weir::dataplane
