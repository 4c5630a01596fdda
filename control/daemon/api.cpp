#include "control/daemon/api.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/files.h"

namespace weir::control {

namespace {

constexpr int kBacklog = 64;

bool may_speak(int socket) {
  const std::optional<uid_t> peer = unix_socket::peer_uid(socket);
  return peer && (*peer == 0 || *peer == geteuid());
}

}  // namespace

Result<std::unique_ptr<ApiServer>> ApiServer::start(Loop& loop, const std::string& path, Handlers handlers,
                                                    int client_ms) {
  Result<unix_socket::Listener> listener = unix_socket::Listener::open(path, unix_socket::Kind::stream, 0660, kBacklog);
  if (!listener) return Error{listener.error()};
  return std::unique_ptr<ApiServer>(new ApiServer(loop, std::move(*listener), std::move(handlers), client_ms));
}

ApiServer::ApiServer(Loop& loop, unix_socket::Listener listener, Handlers handlers, int client_ms)
    : loop_(loop),
      listener_(std::move(listener)),
      handlers_(std::move(handlers)),
      client_ms_(client_ms),
      mailbox_(loop) {
  arrived_ = loop_.io(listener_.fd(), EPOLLIN, [this](uint32_t) { accept(); });
}

bool ApiServer::is_idle() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& one) { return one.second.doing == Doing::sending; });
}

// Everyone who waits, so that a queue that is full is short again.
void ApiServer::accept() {
  for (int i = 0; i < kBacklog; i++) {
    Result<std::optional<Fd>> accepted = listener_.accept();
    if (!accepted) return spdlog::error("API: {}", accepted.error());
    if (!*accepted) return;
    if (may_speak((*accepted)->get()) && make_room()) begin(std::move(**accepted));
  }
}

void ApiServer::begin(Fd fd) {
  const Id id = next_id_++;
  Client& client = clients_[id];
  client.fd = std::move(fd);
  client.ready = loop_.io(client.fd.get(), EPOLLIN, [this, id](uint32_t) { receive(id); });
  client.timer = loop_.timer(Clock::now() + std::chrono::milliseconds(client_ms_),
                             [this, id] { tell(id, handlers_.failure("no complete request line in time")); });
}

// Those who wait for an answer keep their place. False: all of them do.
bool ApiServer::make_room() {
  if (clients_.size() < kMaxClients) return true;
  const auto silent = std::find_if(clients_.begin(), clients_.end(),
                                   [](const auto& one) { return one.second.doing != Doing::waiting; });
  if (silent == clients_.end()) return false;
  clients_.erase(silent);
  return true;
}

// One line (or all, when the client ends its side without one).
void ApiServer::receive(Id id) {
  Client& client = clients_.at(id);
  char chunk[4096];
  const ssize_t got = recv(client.fd.get(), chunk, sizeof chunk, 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0) return tell(id, handlers_.failure(errno_error("cannot receive").message));
  const void* end = memchr(chunk, '\n', static_cast<size_t>(got));
  client.text.append(chunk, end == nullptr ? static_cast<size_t>(got) : static_cast<const char*>(end) - chunk);
  if (client.text.size() > kMaxRequestBytes) {
    return tell(id, handlers_.failure(fmt::format("request of more than {} bytes", kMaxRequestBytes)));
  }
  if (end != nullptr || got == 0) ask(id);
}

void ApiServer::ask(Id id) {
  Client& client = clients_.at(id);
  client.doing = Doing::waiting;
  client.timer.reset();
  // Until there is an answer, only that the client went away is news.
  client.ready.reset();
  client.ready = loop_.io(client.fd.get(), 0, [this, id](uint32_t) { clients_.erase(id); });
  const std::string line = std::exchange(client.text, {});
  handlers_.answer(line, [this, id, alive = mailbox_.token()](std::string answer) {
    if (*alive && clients_.contains(id)) tell(id, std::move(answer));
  });
}

void ApiServer::tell(Id id, std::string line) {
  Client& client = clients_.at(id);
  client.doing = Doing::taking;
  client.text = std::move(line);
  client.timer = loop_.timer(Clock::now() + std::chrono::milliseconds(client_ms_), [this, id] { clients_.erase(id); });
  client.ready.reset();
  client.ready = loop_.io(client.fd.get(), EPOLLOUT, [this, id](uint32_t) { send(id); });
}

void ApiServer::send(Id id) {
  Client& client = clients_.at(id);
  const ssize_t put = ::send(client.fd.get(), client.text.data(), client.text.size(), MSG_NOSIGNAL);
  if (put < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (put > 0) client.text.erase(0, static_cast<size_t>(put));
  if (put < 0 || client.text.empty()) clients_.erase(id);
}

}  // namespace weir::control
