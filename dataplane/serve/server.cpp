#include "dataplane/serve/server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

namespace weir::dataplane {

Result<unix_socket::Listener> listen_on(const std::string& path, bool open_to_all) {
  return unix_socket::Listener::open(path, unix_socket::Kind::seqpacket, open_to_all ? 0666 : 0600, kMaxClients);
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
  Result<std::optional<Fd>> accepted = listener_.accept();
  if (!accepted || !*accepted) return;  // no descriptor left, or gone again
  Fd fd = std::move(**accepted);
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
  const std::optional<uid_t> peer = unix_socket::peer_uid(fd);
  if (!peer) {
    why = "the peer's user is unknown";
    return false;
  }
  if (*peer == 0 || *peer == geteuid()) return true;
  if (std::find(allow_uid_.begin(), allow_uid_.end(), *peer) != allow_uid_.end()) return true;
  why = "user " + std::to_string(*peer) + " may not speak to this data plane; socket.allow_uid names who may";
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
