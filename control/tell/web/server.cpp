#include "control/tell/web/server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <optional>

#include "common/files.h"
#include "common/log/log.h"
#include "common/printable.h"
#include "control/tell/web/host.h"

namespace weir::control::web {

// ----------------------------------------------------------------------------------------------------------- socket

namespace {

constexpr int kMostWaiting = 64;  // to be accepted

struct SocketAddress {
  sockaddr_storage bytes = {};
  socklen_t size = 0;
};

SocketAddress socket_address(const ListenAddress& address) {
  SocketAddress made;
  if (address.is_v6) {
    sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    const auto bytes = to_bytes(address.v6);
    memcpy(&v6.sin6_addr, bytes.data(), bytes.size());
    made.size = sizeof v6;
    memcpy(&made.bytes, &v6, sizeof v6);
  } else {
    sockaddr_in v4 = {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    const auto bytes = to_bytes(address.v4);
    memcpy(&v4.sin_addr, bytes.data(), bytes.size());
    made.size = sizeof v4;
    memcpy(&made.bytes, &v4, sizeof v4);
  }
  return made;
}

const char* way_out(int error) {
  if (error == EADDRINUSE) return "; another program listens there: find it with `ss -ltnp`, or choose another port";
  if (error == EADDRNOTAVAIL) return "; no interface has this address: `ip address` lists them";
  if (error == EACCES) return "; ports below 1024 are for root: choose another one";
  if (error == EAFNOSUPPORT) return "; this system has no such addresses";
  return "";
}

}  // namespace

Result<Fd> listen_at(const ListenAddress& address) {
  const auto failure = [&](int error) {
    return Error{"cannot listen on " + text_of(address) + ": " + strerror(error) + way_out(error)};
  };
  Fd fd(socket(address.is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return failure(errno);
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // after a restart, at once
  const SocketAddress place = socket_address(address);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&place.bytes), place.size) != 0) return failure(errno);
  if (listen(fd.get(), kMostWaiting) != 0) return failure(errno);
  return fd;
}

ListenAddress place_of(int socket) {
  sockaddr_storage place = {};
  socklen_t size = sizeof place;
  ListenAddress address;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&place), &size) != 0) return address;
  if (place.ss_family == AF_INET6) {
    sockaddr_in6 v6 = {};
    memcpy(&v6, &place, sizeof v6);
    return {true, 0, ipv6_from_bytes(v6.sin6_addr.s6_addr), ntohs(v6.sin6_port)};
  }
  sockaddr_in v4 = {};
  memcpy(&v4, &place, sizeof v4);
  return {false, ntohl(v4.sin_addr.s_addr), 0, ntohs(v4.sin_port)};
}

// ----------------------------------------------------------------------------------------------------------- server

namespace {

constexpr const char* kPlain = "text/plain; charset=utf-8";

// Pages get everything from here, and nothing runs in them that is not a file of its own; nobody shows them in a frame,
// guesses another type, or is told where a link was followed. What is told is never older than the question.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-store"},
    {"Connection", "close"},
};

Response plain(unsigned status, std::string text) {
  return {status, kPlain, printable_lines(text) + "\n"};
}

std::string machine_name() {
  utsname name = {};
  return uname(&name) == 0 ? name.nodename : "";
}

void take_message(void*, const char* format, va_list arguments) {
  char text[512];
  vsnprintf(text, sizeof text, format, arguments);
  text[strcspn(text, "\n")] = '\0';
  log::debug("web", {{"text", text}});
}

// What MHD calls is called from C: an exception must not reach it.
template <class Call>
auto guarded(Call call, decltype(call()) otherwise) noexcept {
  try {
    return call();
  } catch (const std::exception& e) {
    log::error("web: an exception", {{"error", e.what()}});
  }
  return otherwise;
}

}  // namespace

const std::string* Request::argument(std::string_view name) const {
  const auto found =
      std::find_if(arguments.begin(), arguments.end(), [&](const auto& one) { return one.first == name; });
  return found == arguments.end() ? nullptr : &found->second;
}

class Server::Implementation {
 public:
  Implementation(Loop& loop, std::vector<Route> routes, const Limits& limits)
      : loop_(loop), mailbox_(loop), routes_(std::move(routes)), limits_(limits) {}
  ~Implementation();
  Implementation(const Implementation&) = delete;

  Result<void> start(const ListenAddress& address);
  const ListenAddress& address() const { return address_; }

 private:
  // One request.
  struct Exchange {
    uint64_t id = 0;
    bool is_asked = false, is_suspended = false;
    std::optional<Response> response;
    std::string type;
  };
  struct Connection {
    int fd = -1;
    Clock::time_point ends;
  };

  static MHD_Result access(void* self, MHD_Connection* connection, const char* url, const char* method,
                           const char* version, const char* upload, size_t* upload_bytes, void** exchange);
  static void completed(void* self, MHD_Connection*, void** exchange, MHD_RequestTerminationCode);
  static void connected(void* self, MHD_Connection* connection, void**, MHD_ConnectionNotificationCode what);

  MHD_Result begin(MHD_Connection* connection, const char* method, void** exchange);
  MHD_Result go_on(MHD_Connection* connection, const char* url, Exchange& exchange);
  std::optional<Response> refusal(MHD_Connection* connection, const char* method) const;
  const Route* route_of(const std::string& path) const;
  Response unknown_page() const;
  void tell(uint64_t id, Response response);
  static MHD_Result send(MHD_Connection* connection, const Response& response, const std::string& type);
  void turn();

  Loop& loop_;
  const Mailbox mailbox_;
  const std::vector<Route> routes_;
  const Limits limits_;
  const std::string machine_ = machine_name();
  ListenAddress address_;
  MHD_Daemon* daemon_ = nullptr;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::pair<MHD_Connection*, Exchange*>> asked_;  // those that an answer is made for
  std::map<MHD_Connection*, Connection> connections_;
  bool is_resumed_ = false;  // a connection that the library has not looked at since
  Loop::Source ready_, timer_;
};

Result<void> Server::Implementation::start(const ListenAddress& address) {
  Result<Fd> socket = listen_at(address);
  if (!socket) return Error{socket.error()};
  address_ = place_of(socket->get());
  const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
                         (address.is_v6 ? static_cast<unsigned>(MHD_USE_IPv6) : 0u);
  // The socket is the library's from here on.
  const int fd = dup(socket->get());
  if (fd < 0) return errno_error("cannot listen on " + text_of(address));
  daemon_ = MHD_start_daemon(flags, 0, nullptr, nullptr, access, this,           //
                             MHD_OPTION_EXTERNAL_LOGGER, take_message, nullptr,  // first, so that it hears all
                             MHD_OPTION_LISTEN_SOCKET, fd,                       //
                             MHD_OPTION_CONNECTION_LIMIT, limits_.connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
                             limits_.connections_of_an_address, MHD_OPTION_CONNECTION_TIMEOUT, limits_.silent_s,  //
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, limits_.request_bytes,                           //
                             MHD_OPTION_STRICT_FOR_CLIENT, 1,                                                     //
                             MHD_OPTION_NOTIFY_COMPLETED, completed, this,                                        //
                             MHD_OPTION_NOTIFY_CONNECTION, connected, this, MHD_OPTION_END);
  if (daemon_ == nullptr) {
    close(fd);
    return Error{"cannot serve " + text_of(address) + ": libmicrohttpd does not start"};
  }
  const MHD_DaemonInfo* info = MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD);
  ready_ = loop_.io(info->epoll_fd, EPOLLIN, [this](uint32_t) { turn(); });
  if (!ready_) return errno_error("cannot wait for connections to " + text_of(address));
  return {};
}

Server::Implementation::~Implementation() {
  ready_.reset();
  timer_.reset();
  if (daemon_ == nullptr) return;
  // None may be suspended when it ends.
  for (auto& [id, one] : asked_) {
    auto& [connection, exchange] = one;
    if (!exchange->response) exchange->response = plain(503, "controld does not serve this address any more");
    if (exchange->is_suspended) MHD_resume_connection(connection);
  }
  MHD_stop_daemon(daemon_);
}

MHD_Result Server::Implementation::access(void* self, MHD_Connection* connection, const char* url, const char* method,
                                          const char*, const char*, size_t*, void** exchange) {
  auto& server = *static_cast<Implementation*>(self);
  return guarded(
      [&] {
        if (*exchange == nullptr) return server.begin(connection, method, exchange);
        return server.go_on(connection, url, *static_cast<Exchange*>(*exchange));
      },
      MHD_NO);
}

void Server::Implementation::completed(void* self, MHD_Connection*, void** exchange, MHD_RequestTerminationCode) {
  auto& server = *static_cast<Implementation*>(self);
  const std::unique_ptr<Exchange> ended(static_cast<Exchange*>(std::exchange(*exchange, nullptr)));
  if (ended != nullptr) server.asked_.erase(ended->id);
}

void Server::Implementation::connected(void* self, MHD_Connection* connection, void**,
                                       MHD_ConnectionNotificationCode what) {
  auto& server = *static_cast<Implementation*>(self);
  (void)guarded(
      [&] {
        if (what == MHD_CONNECTION_NOTIFY_CLOSED) return server.connections_.erase(connection);
        const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (info != nullptr) server.connections_[connection] = {info->connect_fd, Clock::now() + server.limits_.lasts};
        return size_t{1};
      },
      size_t{0});
}

// The head of a request is there.
MHD_Result Server::Implementation::begin(MHD_Connection* connection, const char* method, void** exchange) {
  if (const std::optional<Response> refused = refusal(connection, method)) return send(connection, *refused, kPlain);
  auto made = std::make_unique<Exchange>();
  made->id = next_id_++;
  asked_[made->id] = {connection, made.get()};
  *exchange = made.release();
  return MHD_YES;
}

std::optional<Response> Server::Implementation::refusal(MHD_Connection* connection, const char* method) const {
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
    return plain(MHD_HTTP_METHOD_NOT_ALLOWED,
                 "only GET and HEAD: nothing can be changed here; controlctl changes things");
  }
  std::vector<std::string> hosts;
  bool has_body = false;
  struct Found {
    std::vector<std::string>& hosts;
    bool& has_body;
  } found{hosts, has_body};
  const auto look = [](void* into, MHD_ValueKind, const char* name, const char* value) {
    return guarded(
        [&] {
          const auto& to = *static_cast<Found*>(into);
          if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) to.hosts.emplace_back(value == nullptr ? "" : value);
          const bool is_length = strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
          if (is_length && value != nullptr && strcmp(value, "0") != 0) to.has_body = true;
          if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) to.has_body = true;
          return MHD_YES;
        },
        MHD_NO);
  };
  MHD_get_connection_values(connection, MHD_HEADER_KIND, look, &found);
  if (has_body) return plain(MHD_HTTP_CONTENT_TOO_LARGE, "a request has no body here");
  if (hosts.size() > 1) return plain(MHD_HTTP_BAD_REQUEST, "a request has one header Host");
  if (!hosts.empty() && !is_own_host(hosts[0], machine_)) {  // HTTP/1.0 needs none, and no browser speaks it
    return plain(MHD_HTTP_MISDIRECTED_REQUEST,
                 "ask for this machine by its address, as localhost, or by its own name" +
                     (machine_.empty() ? std::string() : " (" + machine_ + ")") +
                     ": other names could be those of a web page that wants to read what is here");
  }
  return std::nullopt;
}

const Route* Server::Implementation::route_of(const std::string& path) const {
  const auto found = std::find_if(routes_.begin(), routes_.end(), [&](const Route& one) { return one.path == path; });
  return found == routes_.end() ? nullptr : &*found;
}

Response Server::Implementation::unknown_page() const {
  std::string text = "there is no such page; there are:";
  for (const Route& route : routes_) text += " " + route.path;
  return plain(MHD_HTTP_NOT_FOUND, text);
}

// The whole request is there; or, later, its answer.
MHD_Result Server::Implementation::go_on(MHD_Connection* connection, const char* url, Exchange& exchange) {
  if (exchange.response) return send(connection, *exchange.response, exchange.type);
  if (exchange.is_asked) return MHD_YES;
  exchange.is_asked = true;
  Request request{url, {}};
  const Route* route = route_of(request.path);
  if (route == nullptr) return send(connection, unknown_page(), kPlain);
  exchange.type = route->type;
  const auto keep = [](void* into, MHD_ValueKind, const char* name, const char* value) {
    return guarded(
        [&] {
          static_cast<Request*>(into)->arguments.emplace_back(name, value == nullptr ? "" : value);
          return MHD_YES;
        },
        MHD_NO);
  };
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, keep, &request);
  if (request.arguments.size() > limits_.arguments) {
    return send(connection, plain(MHD_HTTP_BAD_REQUEST, "too many arguments"), kPlain);
  }
  route->answer(request, [this, id = exchange.id, alive = mailbox_.token()](Response response) {
    if (*alive) tell(id, std::move(response));
  });
  if (exchange.response) return send(connection, *exchange.response, exchange.type);
  exchange.is_suspended = true;
  MHD_suspend_connection(connection);
  return MHD_YES;
}

void Server::Implementation::tell(uint64_t id, Response response) {
  const auto found = asked_.find(id);
  if (found == asked_.end() || found->second.second->response) return;
  auto& [connection, exchange] = found->second;
  exchange->response = std::move(response);
  if (!exchange->is_suspended) return;
  exchange->is_suspended = false;
  MHD_resume_connection(connection);
  is_resumed_ = true;
  timer_ = loop_.timer(Clock::now(), [this] { turn(); });
}

MHD_Result Server::Implementation::send(MHD_Connection* connection, const Response& response, const std::string& type) {
  const std::string& body = response.body;
  const std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)> made(
      MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY),
      MHD_destroy_response);
  if (made == nullptr) return MHD_NO;
  MHD_add_response_header(made.get(), MHD_HTTP_HEADER_CONTENT_TYPE,
                          (response.type.empty() ? type : response.type).c_str());
  for (const auto& [name, value] : kHeaders) MHD_add_response_header(made.get(), name, value);
  if (response.status == MHD_HTTP_METHOD_NOT_ALLOWED) {
    MHD_add_response_header(made.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  }
  return MHD_queue_response(connection, response.status, made.get());
}

// What is ready is served, once for each connection; what is left is told by the descriptor, or waits for the timer.
void Server::Implementation::turn() {
  is_resumed_ = false;
  MHD_run(daemon_);
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + limits_.lasts;
  for (auto& [connection, one] : connections_) {
    if (one.ends <= now) {
      shutdown(one.fd, SHUT_RDWR);  // the library sees its end, and closes it
      one.ends = now + limits_.lasts;
    }
    next = std::min(next, one.ends);
  }
  MHD_UNSIGNED_LONG_LONG wait_ms = 0;
  if (is_resumed_) {  // while it ran
    next = now;
  } else if (MHD_get_timeout(daemon_, &wait_ms) == MHD_YES) {
    next = std::min(next, now + std::chrono::milliseconds(std::min<MHD_UNSIGNED_LONG_LONG>(wait_ms, 3'600'000)));
  } else if (connections_.empty()) {
    timer_.reset();
    return;
  }
  timer_ = loop_.timer(next, [this] { turn(); });
}

Server::Server(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Server::~Server() = default;

const ListenAddress& Server::address() const {
  return implementation_->address();
}

Result<std::unique_ptr<Server>> Server::start(Loop& loop, const ListenAddress& address, std::vector<Route> routes,
                                              const Limits& limits) {
  auto made = std::make_unique<Implementation>(loop, std::move(routes), limits);
  if (Result<void> started = made->start(address); !started) return Error{started.error()};
  return std::unique_ptr<Server>(new Server(std::move(made)));
}

}  // namespace weir::control::web
