#include "dataplane/serve/server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "common/log/log.h"

namespace weir::dataplane {

Result<unix_socket::Listener> listen_on(const std::string& path, bool open_to_all) {
  return unix_socket::Listener::open(path, unix_socket::Kind::seqpacket, open_to_all ? 0666 : 0660, kMaxWaiting);
}

Answer refuse(std::string_view reason) {
  wire::TextBody text;
  wire::set_text(text.text, reason);
  const std::span<const std::byte> bytes = wire::bytes_of(text);
  return {wire::Type::refused, {bytes.begin(), bytes.end()}};
}

namespace {

constexpr std::chrono::milliseconds kPause{1};  // where the kernel has no memory to wait with
constexpr int kLookMs = 10;                     // for answers, where no descriptor was left that tells of them

}  // namespace

Server::Server(unix_socket::Listener& listener, std::vector<uid_t> allow_uid, Handler handler, Log log)
    : listener_(listener),
      allow_uid_(std::move(allow_uid)),
      handler_(std::move(handler)),
      log_(log ? std::move(log) : [](const log::Event& event) { log::write(event); }),
      outbox_(std::make_shared<Outbox>()) {
  outbox_->wake.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
}

void Server::run(int stop_fd) {
  while (!serve_once(stop_fd, -1)) {
  }
}

bool Server::serve_once(int stop_fd, int timeout_ms) {
  turns_.fetch_add(1, std::memory_order_relaxed);
  std::vector<pollfd> ready = {{stop_fd, POLLIN, 0}, {listener_.fd(), POLLIN, 0}, {outbox_->wake.get(), POLLIN, 0}};
  const size_t others = ready.size();
  for (const Client& client : clients_) {
    ready.push_back({client.fd.get(), static_cast<short>(client.asked < kMaxAsked ? POLLIN : 0), 0});
  }
  if (!outbox_->wake && (timeout_ms < 0 || timeout_ms > kLookMs)) timeout_ms = kLookMs;
  const int n = poll(ready.data(), ready.size(), timeout_ms);
  if (n < 0) {
    if (errno != EINTR) std::this_thread::sleep_for(kPause);
    return false;
  }
  if (n == 0) return deliver(), false;
  if (ready[0].revents != 0) return true;
  for (size_t i = 0; i < clients_.size(); i++) {
    if (ready[i + others].revents != 0 && !serve(clients_[i])) listener_.give_back(std::move(clients_[i].fd));
  }
  deliver();
  std::erase_if(clients_, [](const Client& client) { return !client.fd; });
  if (ready[1].revents != 0) accept_client();
  return false;
}

void Server::accept_client() {
  constexpr const char* kFull = "closed: this program has as many descriptors open as it may";
  const bool has_room = listener_.has_room();
  if (!has_room) close_most_silent(kFull);
  Result<std::optional<Fd>> accepted = listener_.accept();
  if (!has_room && !std::exchange(is_full_, true)) {
    log_({log::Level::warning,
          "as many descriptors are open as may be",
          {{"then", accepted ? "the client that was silent longest is closed" : accepted.error()}}});
  }
  if (!accepted || !*accepted) return;  // closed, or gone again
  is_full_ = !has_room;
  Fd fd = std::move(**accepted);
  std::string why;
  const std::optional<unix_socket::Peer> peer = unix_socket::peer_of(fd.get());
  if (!may_speak(peer, why)) {
    (void)wire::send(fd.get(), wire::Type::refused, 0, refuse(why).body);
    return listener_.give_back(std::move(fd));
  }
  if (clients_.size() == kMaxClients) close_most_silent("closed: too many clients");
  clients_.push_back({std::move(fd), *peer, next_id_++, requests_});
}

void Server::close_most_silent(std::string_view why) {
  const auto silent = std::min_element(clients_.begin(), clients_.end(), [](const Client& a, const Client& b) {
    return std::pair(a.asked != 0, a.last_heard) < std::pair(b.asked != 0, b.last_heard);
  });
  if (silent == clients_.end()) return;
  (void)wire::send(silent->fd.get(), wire::Type::refused, 0, refuse(why).body);
  listener_.give_back(std::move(silent->fd));
  clients_.erase(silent);
}

bool Server::may_speak(const std::optional<unix_socket::Peer>& peer, std::string& why) const {
  if (!peer) {
    why = "the peer's user is unknown";
    return false;
  }
  if (peer->uid == 0 || peer->uid == geteuid()) return true;
  if (std::find(allow_uid_.begin(), allow_uid_.end(), peer->uid) != allow_uid_.end()) return true;
  why = "user " + std::to_string(peer->uid) + " may not speak to this data plane; socket.allow_uid names who may";
  return false;
}

bool Server::serve(Client& client) {
  Result<wire::Message> request = wire::receive(client.fd.get());
  if (!request) {  // also an orderly end: then nobody reads the refusal
    (void)wire::send(client.fd.get(), wire::Type::refused, 0, refuse(request.error()).body);
    return false;
  }
  if (unix_socket::has_gone(client.fd.get())) return false;
  client.last_heard = ++requests_;
  const bool is_bypass = request->header.type == static_cast<uint16_t>(wire::Type::bypass);
  client.asked++;
  const uint32_t sequence = request->header.sequence;
  handler_(std::move(*request), [outbox = outbox_, id = client.id, sequence](Answer answer) {
    {
      const std::lock_guard lock(outbox->mutex);
      outbox->told.push_back({id, sequence, std::move(answer)});
    }
    eventfd_write(outbox->wake.get(), 1);
  });
  // Not before it is in force: a real-time thread waits for no lock that the log holds.
  if (is_bypass) {
    log_({log::Level::notice,
          "asked for",
          {{"command", "bypass"}, {"user", client.peer.uid}, {"process", client.peer.pid}},
          false});
  }
  return true;
}

// What is answered by now. A refusal is the last that a client hears.
void Server::deliver() {
  eventfd_t count = 0;
  eventfd_read(outbox_->wake.get(), &count);
  std::vector<Told> told;
  {
    const std::lock_guard lock(outbox_->mutex);
    told.swap(outbox_->told);
  }
  for (const Told& one : told) {
    const auto client =
        std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) { return c.id == one.client && c.fd; });
    if (client == clients_.end()) continue;
    client->asked--;
    const bool sent{wire::send(client->fd.get(), one.answer.type, one.sequence, one.answer.body)};
    if (!sent || one.answer.type == wire::Type::refused) listener_.give_back(std::move(client->fd));
  }
}

}  // namespace weir::dataplane
