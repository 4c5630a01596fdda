#include "control/daemon/api.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>

#include "common/files.h"

namespace weir::control {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 64;

// Waits until the socket is ready for `events`; false at the deadline.
bool wait_ready(int socket, short events, Clock::time_point deadline) {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd event{socket, events, 0};
    const int ready = poll(&event, 1, static_cast<int>(left));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// One line (or all, when the client ends its side without one). An error's text is for the client.
Result<std::string> receive_line(int socket, Clock::time_point deadline) {
  std::string line;
  while (true) {
    if (!wait_ready(socket, POLLIN, deadline)) return Error{"no complete request line in time"};
    char chunk[4096];
    const ssize_t got = recv(socket, chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return errno_error("cannot receive");
    const void* end = memchr(chunk, '\n', static_cast<size_t>(got));
    line.append(chunk, end == nullptr ? static_cast<size_t>(got) : static_cast<const char*>(end) - chunk);
    if (line.size() > ApiServer::kMaxRequestBytes) {
      return Error{fmt::format("request of more than {} bytes", ApiServer::kMaxRequestBytes)};
    }
    if (end != nullptr || got == 0) return line;
  }
}

void send_all(int socket, std::string_view text, Clock::time_point deadline) {
  while (!text.empty()) {
    if (!wait_ready(socket, POLLOUT, deadline)) return;  // a client that does not read loses its answer
    const ssize_t put = ::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (put < 0) return;
    text.remove_prefix(static_cast<size_t>(put));
  }
}

bool allowed(int socket) {
  const std::optional<uid_t> peer = unix_socket::peer_uid(socket);
  return peer && (*peer == 0 || *peer == geteuid());
}

}  // namespace

Result<std::unique_ptr<ApiServer>> ApiServer::start(const std::string& path, Handler handler, int client_ms) {
  Result<unix_socket::Listener> listener = unix_socket::Listener::open(path, unix_socket::Kind::stream, 0660, kBacklog);
  if (!listener) return Error{listener.error()};
  // The threads wait in accept().
  if (fcntl(listener->fd(), F_SETFL, 0) != 0) return errno_error("cannot set up " + path);
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(*listener), std::move(handler), client_ms));
}

ApiServer::ApiServer(unix_socket::Listener listener, Handler handler, int client_ms)
    : listener_(std::move(listener)), handler_(std::move(handler)), client_ms_(client_ms) {
  for (int i = 0; i < kMaxConnections; i++) threads_.emplace_back([this] { serve(); });
}

ApiServer::~ApiServer() {
  shutdown(listener_.fd(), SHUT_RDWR);  // every accept() returns
  for (std::thread& thread : threads_) thread.join();
}

void ApiServer::serve() {
  while (true) {
    Fd client(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EMFILE && errno != ENFILE) return;  // EINVAL: shut down
      spdlog::error("API: {}", strerror(errno));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until descriptors are free again
      continue;
    }
    if (!allowed(client.get())) continue;
    const auto patience = std::chrono::milliseconds(client_ms_);
    const Result<std::string> line = receive_line(client.get(), Clock::now() + patience);
    const std::string reply = line ? answer(*line) : failure_line(line.error());
    send_all(client.get(), reply, Clock::now() + patience);
  }
}

std::string ApiServer::answer(const std::string& line) const {
  const Result<Document> document = Document::parse(line);
  if (!document) return failure_line("a request is one JSON object on one line");
  const Result<Request> request = read_json<Request>(*document);
  if (!request) return failure_line("request not understood: " + request.error());
  return handler_(*request);
}

}  // namespace weir::control
