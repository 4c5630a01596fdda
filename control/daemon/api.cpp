#include "control/daemon/api.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/again.h"
#include "common/files.h"
#include "common/log/log.h"

namespace weir::control {

namespace {
constexpr int kMaxWaiting = 1024;     // to be accepted: however many come at once, nobody is turned away
constexpr int kAtOnce = 64;           // are accepted before others are served
constexpr size_t kMostRefused = 256;  // connections that wait to be told so
constexpr std::chrono::milliseconds kRefused{200};
constexpr std::chrono::milliseconds kPause{10};  // where the kernel has no memory for an answer
}  // namespace

Result<std::unique_ptr<ApiServer>> ApiServer::start(Loop& loop, const std::string& path, Handlers handlers,
                                                    int client_ms, Groups groups) {
  // A file has one group.
  const bool is_open = groups.look && groups.change && *groups.look != *groups.change;
  const std::optional<gid_t> owner = is_open ? std::nullopt : groups.change ? groups.change : groups.look;
  Result<unix_socket::Listener> listener =
      unix_socket::Listener::open(path, unix_socket::Kind::stream, is_open ? 0666 : 0660, kMaxWaiting, owner);
  if (!listener) return Error{listener.error()};
  std::unique_ptr<ApiServer> server(new ApiServer(loop, std::move(*listener), std::move(handlers), client_ms, groups));
  if (!server->arrived_) return errno_error("cannot wait for connections to " + path);
  return server;
}

ApiServer::ApiServer(Loop& loop, unix_socket::Listener listener, Handlers handlers, int client_ms, Groups groups)
    : loop_(loop),
      listener_(std::move(listener)),
      handlers_(std::move(handlers)),
      client_ms_(client_ms),
      groups_(groups),
      mailbox_(loop) {
  arrived_ = loop_.io(listener_.fd(), EPOLLIN, [this](uint32_t) { accept(); });
}

void ApiServer::say(const std::string& error) const {
  if (handlers_.log) return handlers_.log(error);
  log::error("API fails", {{"error", error}});
}

bool ApiServer::is_idle() const {
  return std::all_of(clients_.begin(), clients_.end(),
                     [](const auto& one) { return one.second.doing == Doing::sending; });
}

void ApiServer::accept() {
  for (int i = 0; i < kAtOnce; i++) {
    if (!listener_.has_room() && !refused_.empty()) tell_refused();
    if (!listener_.has_room()) (void)close_silent([](const Caller&) { return true; });
    Result<std::optional<Fd>> accepted = listener_.accept();
    if (!accepted) return say(accepted.error());
    if (!*accepted) return;
    const std::optional<Caller> caller = caller_of((*accepted)->get());
    if (!caller) {
      listener_.give_back(std::move(**accepted));
    } else if (make_room(*caller)) {
      begin(std::move(**accepted), *caller);
    } else {
      refuse(std::move(**accepted));
    }
  }
}

std::optional<Caller> ApiServer::caller_of(int socket) const {
  const std::optional<unix_socket::Peer> peer = unix_socket::peer_of(socket);
  if (!peer) return std::nullopt;
  if (peer->uid == 0 || peer->uid == geteuid()) return Caller{peer->uid, peer->pid, true};
  const auto is_in = [&](const std::optional<gid_t>& group) {
    return group && unix_socket::is_peer_in_group(socket, *group);
  };
  if (is_in(groups_.change)) return Caller{peer->uid, peer->pid, true};
  if (is_in(groups_.look)) return Caller{peer->uid, peer->pid, false};
  return std::nullopt;
}

void ApiServer::begin(Fd fd, const Caller& caller) {
  const Id id = next_id_++;
  Client& client = clients_[id];
  client.fd = std::move(fd);
  client.caller = caller;
  client.caller.is_gone = client.is_gone = std::make_shared<std::atomic<bool>>(false);
  client.ready = loop_.io(client.fd.get(), EPOLLIN, [this, id](uint32_t) { receive(id); });
  if (!client.ready) {
    say(errno_error("a connection is closed at once: it cannot be waited for").message);
    return (void)clients_.erase(id);
  }
  client.timer = loop_.timer(Clock::now() + std::chrono::milliseconds(client_ms_),
                             [this, id] { tell(id, handlers_.failure("no complete request line in time")); });
}

// A client that waits for an answer, or takes it, keeps its place. False: there is no place.
bool ApiServer::make_room(const Caller& caller) {
  const auto is_of_user = [&](const Caller& one) { return one.uid == caller.uid; };
  const auto is_looker = [](const Caller& one) { return !one.may_change; };
  const auto has_place = [&](size_t most, const std::function<bool(const Caller&)>& is_alike) {
    const auto n =
        std::count_if(clients_.begin(), clients_.end(), [&](const auto& one) { return is_alike(one.second.caller); });
    return static_cast<size_t>(n) < most || close_silent(is_alike);
  };
  const bool has_share = caller.uid != 0 && caller.uid != geteuid();
  if (has_share && !has_place(kMaxOfUser, is_of_user)) return false;
  if (!caller.may_change && !has_place(kMaxLookers, is_looker)) return false;
  return has_place(kMaxClients, [](const Caller&) { return true; });
}

// Only who has said nothing: what has arrived is heard first.
bool ApiServer::close_silent(const std::function<bool(const Caller&)>& may_be) {
  std::vector<Id> sending;  // the one that came first is the first
  for (const auto& [id, client] : clients_) {
    if (client.doing == Doing::sending && may_be(client.caller)) sending.push_back(id);
  }
  for (const Id id : sending) {
    pollfd heard = {clients_.at(id).fd.get(), POLLIN, 0};
    if (poll(&heard, 1, 0) == 1) {
      receive(id);
      if (!clients_.contains(id)) return true;
      if (clients_.at(id).doing != Doing::sending) continue;
    }
    end(id);
    return true;
  }
  return false;
}

// The connection finds no place, and is told so a moment later. A client that asks again at once would take all of the
// loop's time.
void ApiServer::refuse(Fd fd) {
  if (refused_.size() >= kMostRefused) tell_refused();
  refused_.push_back({Clock::now() + kRefused, std::move(fd)});
  if (!refusing_) wait_to_refuse();
}

void ApiServer::wait_to_refuse() {
  refusing_ = loop_.timer(refused_.front().at, [this] {
    refusing_.reset();
    while (!refused_.empty() && refused_.front().at <= Clock::now()) tell_refused();
    if (!refused_.empty()) wait_to_refuse();
  });
}

// The first of them: as much of the line as the socket takes at once, which is all of it.
void ApiServer::tell_refused() {
  Fd fd = std::move(refused_.front().fd);
  refused_.pop_front();
  const std::string line = handlers_.failure("too many connections wait for answers: ask again");
  (void)::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  listener_.give_back(std::move(fd));
}

void ApiServer::end(Id id) {
  const auto client = clients_.find(id);
  if (client == clients_.end()) return;
  *client->second.is_gone = true;
  client->second.ready.reset();  // before its descriptor is another's
  listener_.give_back(std::move(client->second.fd));
  clients_.erase(client);
}

// One line (or all, when the client ends its side without one).
void ApiServer::receive(Id id) {
  Client& client = clients_.at(id);
  char chunk[65536];
  const ssize_t got = recv(client.fd.get(), chunk, sizeof chunk, 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0) return tell(id, handlers_.failure(errno_error("cannot receive").message));
  const void* end = memchr(chunk, '\n', static_cast<size_t>(got));
  client.text.append(chunk, end == nullptr ? static_cast<size_t>(got) : static_cast<const char*>(end) - chunk);
  const size_t most = client.caller.may_change ? kMaxChangeBytes : kMaxRequestBytes;
  if (client.text.size() > most) {
    return tell(id, handlers_.failure(fmt::format("request of more than {} bytes", most)));
  }
  if (end != nullptr || got == 0) ask(id);
}

void ApiServer::ask(Id id) {
  Client& client = clients_.at(id);
  if (unix_socket::has_gone(client.fd.get())) return end(id);
  client.doing = Doing::waiting;
  client.timer.reset();
  // Until there is an answer, only that the client went away is news.
  client.ready.reset();
  client.ready = loop_.io(client.fd.get(), 0, [this, id](uint32_t) { end(id); });
  const std::string line = std::exchange(client.text, {});
  handlers_.answer(line, client.caller, [this, id, alive = mailbox_.token()](std::string answer) {
    if (*alive && clients_.contains(id)) tell(id, std::move(answer));
  });
}

void ApiServer::tell(Id id, std::string line) {
  Client& client = clients_.at(id);
  client.doing = Doing::taking;
  client.text = std::move(line);
  client.timer = loop_.timer(Clock::now() + std::chrono::milliseconds(client_ms_), [this, id] { end(id); });
  send_when_ready(id);
}

void ApiServer::send_when_ready(Id id) {
  Client& client = clients_.at(id);
  client.ready.reset();
  client.ready = loop_.io(client.fd.get(), EPOLLOUT, [this, id](uint32_t) { send(id); });
  if (!client.ready) send(id);  // what fits at once
}

void ApiServer::send(Id id) {
  Client& client = clients_.at(id);
  const ssize_t put = ::send(client.fd.get(), client.text.data(), client.text.size(), MSG_NOSIGNAL);
  if (put < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (put < 0 && is_out_of_buffers(errno)) {  // no end of a pause is told of: the socket has room
    client.ready = loop_.timer(Clock::now() + kPause, [this, id] { send_when_ready(id); });
    return;
  }
  if (put > 0) client.text.erase(0, static_cast<size_t>(put));
  if (put < 0 || client.text.empty()) end(id);
}

}  // namespace weir::control
