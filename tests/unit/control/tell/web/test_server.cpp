// The HTTP server on a loop: what it answers, what it refuses, and clients that mean no good.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "control/tell/web/server.h"
#include "tests/catch.h"
#include "tests/unit/own_clocks.h"

using namespace weir;
using namespace weir::control;
using namespace weir::control::web;

namespace {

Limits small_limits() {
  Limits limits;
  limits.connections = 8;
  limits.connections_of_an_address = 4;
  limits.silent_s = 1;
  limits.lasts = std::chrono::seconds(3);
  return limits;
}

// A server on a loop that a thread turns.
class Served {
 public:
  explicit Served(const Limits& limits = Limits(), const char* address = "127.0.0.1:0") {
    std::vector<Route> routes = {
        {"/echo", "text/plain",
         [](const Request& request, const Reply& reply) {
           std::string text = request.path;
           for (const auto& [name, value] : request.arguments) text += "|" + name + "=" + value;
           reply({200, "", text});
         }},
        {"/later", "text/plain", [this](const Request&, Reply reply) { waiting_.push_back(std::move(reply)); }},
        {"/release", "text/html",
         [this](const Request&, const Reply& reply) {
           for (const Reply& one : std::exchange(waiting_, {})) one({200, "", "released"});
           reply({201, "text/csv", "done"});
         }},
        {"/huge", "text/plain", [](const Request&, const Reply& reply) {
           reply({200, "", std::string(8 << 20, 'x')});
         }}};
    auto server = Server::start(loop_, *parse_listen_address(address), std::move(routes), limits);
    REQUIRE(server);
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Served() {
    end_server();
    loop_.stop();
    thread_.join();
  }
  // As a reload does that moves it: on the loop.
  void end_server() {
    std::atomic<bool> is_done = false;
    loop_.post([&] {
      server_.reset();
      is_done = true;
    });
    while (!is_done) std::this_thread::yield();
  }
  bool turns() {
    std::atomic<bool> is_done = false;
    loop_.post([&] { is_done = true; });
    return eventually([&] { return is_done.load(); });
  }
  const ListenAddress& address() const { return server_->address(); }
  Fd connect() const {
    Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(server_->address().port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
    return fd;
  }
  static void say(const Fd& fd, const std::string& bytes) {
    (void)send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  static std::string hear(const Fd& fd) {
    std::string text;
    char chunk[65536];
    while (true) {
      const ssize_t got = recv(fd.get(), chunk, sizeof chunk, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return text;
      text.append(chunk, static_cast<size_t>(got));
    }
  }
  std::string call(const std::string& bytes) const {
    const Fd fd = connect();
    say(fd, bytes);
    return hear(fd);
  }
  std::string get(const std::string& path, const std::string& more = "Host: localhost\r\n") const {
    return call("GET " + path + " HTTP/1.1\r\n" + more + "\r\n");
  }

 private:
  Loop loop_;
  std::vector<Reply> waiting_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

bool is_status(const std::string& answer, int status) {
  return answer.starts_with("HTTP/1.1 " + std::to_string(status) + " ");
}

bool has(const std::string& answer, const std::string& text) {
  return answer.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a page is answered with its type and the headers that protect it, and the connection ends") {
  const Served served;
  const std::string answer = served.get("/echo?a=1&b=x%20y+z&c&a=%26%3D");
  CHECK(is_status(answer, 200));
  CHECK(answer.ends_with("\r\n\r\n/echo|a=1|b=x y z|c=|a=&="));
  for (const char* line :
       {"\r\nContent-Type: text/plain\r\n", "\r\nContent-Security-Policy: default-src 'self'; ",
        "frame-ancestors 'none'", "\r\nX-Content-Type-Options: nosniff\r\n", "\r\nReferrer-Policy: no-referrer\r\n",
        "\r\nX-Frame-Options: DENY\r\n", "\r\nCache-Control: no-store\r\n", "\r\nConnection: close\r\n"}) {
    INFO(line);
    CHECK(has(answer, line));
  }
  CHECK_FALSE(has(answer, "unsafe-inline"));
  const std::string head = served.call("HEAD /echo HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  CHECK(is_status(head, 200));
  CHECK(has(head, "\r\nContent-Length: 5\r\n"));
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(served.get("/huge").size() > (8u << 20));
}

TEST_CASE("an answer may come later, also when its client is gone") {
  const Served served;
  const Fd first = served.connect(), second = served.connect();
  Served::say(first, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  Served::say(second, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  {
    const Fd gone = served.connect();
    Served::say(gone, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  CHECK(served.get("/echo").ends_with("/echo"));  // nobody waits for them
  const std::string done = served.get("/release");
  CHECK(is_status(done, 201));
  CHECK(has(done, "\r\nContent-Type: text/csv\r\n"));
  CHECK(Served::hear(first).ends_with("\r\n\r\nreleased"));
  CHECK(Served::hear(second).ends_with("\r\n\r\nreleased"));
}

TEST_CASE("who waits is not forgotten when the server ends") {
  Served served;
  const Fd waits = served.connect();
  Served::say(waits, "GET /later HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(served.get("/echo").ends_with("/echo"));
  served.end_server();
  (void)Served::hear(waits);  // its connection ends
  CHECK(served.turns());
}

TEST_CASE("what is not to be done here is refused, with the reason") {
  const Served served;
  const std::string post = served.call("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(is_status(post, 405));
  CHECK(has(post, "\r\nAllow: GET, HEAD\r\n"));
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "get"}) {
    INFO(method);
    CHECK(is_status(served.call(std::string(method) + " /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405));
  }
  const std::string unknown = served.get("/nothing");
  CHECK(is_status(unknown, 404));
  CHECK(has(unknown, "/echo"));
  CHECK(is_status(served.get("/echo/"), 404));
  CHECK(is_status(served.get("/../echo"), 404));
  const std::string body = served.call("GET /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(is_status(body, 413));
  std::string many = "/echo?";
  for (int i = 0; i < 17; i++) many += "a&";
  CHECK(is_status(served.get(many), 400));
}

TEST_CASE("another name than the machine's is refused: a page of somebody else could have it") {
  const Served served;
  for (const char* host : {"evil.example.com", "localhost.evil.com:80", "127.0.0.1.evil.com", "x"}) {
    INFO(host);
    const std::string answer = served.get("/echo", std::string("Host: ") + host + "\r\n");
    CHECK(is_status(answer, 421));
    CHECK(has(answer, "by its address, as localhost, or by its own name"));
  }
  char name[256] = {};
  REQUIRE(gethostname(name, sizeof name - 1) == 0);
  CHECK(is_status(served.get("/echo", std::string("Host: ") + name + ":1\r\n"), 200));
  CHECK(is_status(served.get("/echo", ""), 400));
  CHECK(is_status(served.get("/echo", "Host: localhost\r\nHost: evil.example.com\r\n"), 400));
  CHECK(is_status(served.get("/echo", "Host: evil.example.com\r\nHost: localhost\r\n"), 400));
}

TEST_CASE("a head that is too long, broken, or never ends is no trouble") {
  const Served served(small_limits());
  const std::string longer = served.get("/echo?" + std::string(64 * 1024, 'a'));
  CHECK((longer.empty() || longer.starts_with("HTTP/1.1 4")));
  const std::string headers = served.get("/echo", "Host: localhost\r\nX: " + std::string(64 * 1024, 'a') + "\r\n");
  CHECK((headers.empty() || headers.starts_with("HTTP/1.1 4")));
  for (const std::string& bytes :
       {std::string("\r\n\r\n\r\n"), std::string("GET\r\n\r\n"), std::string("\0\0\0\0\r\n\r\n", 8),
        std::string("GET /echo HTTP/9.9\r\n\r\n"), std::string("\x16\x03\x01\x02\x00", 5)}) {
    const Fd fd = served.connect();
    Served::say(fd, bytes);
    shutdown(fd.get(), SHUT_WR);
    CHECK_FALSE(is_status(Served::hear(fd), 200));
  }
  const Fd silent = served.connect();
  Served::say(silent, "GET /echo HTTP/1.1\r\nHost: loc");
  CHECK_FALSE(is_status(Served::hear(silent), 200));  // until it is closed
  CHECK(is_status(served.get("/echo"), 200));
}

TEST_CASE("who sends a byte now and then keeps no place for long") {
  Served served(small_limits());
  const Fd slow = served.connect();
  const OwnClocks clocks;
  constexpr std::chrono::milliseconds kNowAndThen{100};
  std::chrono::milliseconds passed{0};
  for (bool is_open = true; is_open && passed < std::chrono::seconds(20); passed += kNowAndThen) {
    Served::say(slow, "G");
    clocks.pass(kNowAndThen);
    for (int i = 0; i < 3; i++) REQUIRE(served.turns());
    char byte = 0;
    const ssize_t got = recv(slow.get(), &byte, 1, MSG_DONTWAIT);
    is_open = got < 0 && errno == EAGAIN;
  }
  CHECK(passed >= std::chrono::seconds(2));
  CHECK(passed < std::chrono::seconds(20));
}

TEST_CASE("connections past the limit are closed at once, and the loop turns") {
  Served served(small_limits());
  std::vector<Fd> idle;
  for (int i = 0; i < 40; i++) idle.push_back(served.connect());
  CHECK(served.turns());
  idle.clear();
  CHECK(eventually([&] { return is_status(served.get("/echo"), 200); }));
}

TEST_CASE("IPv6, and an address that is taken") {
  const Served served(Limits(), "[::1]:0");
  CHECK(served.address().is_v6);
  CHECK(served.address().port != 0);
  Loop loop;
  const auto again = Server::start(loop, served.address(), {});
  REQUIRE_FALSE(again);
  CHECK(has(again.error(), "cannot listen on [::1]:" + std::to_string(served.address().port)));
  CHECK(has(again.error(), "choose another port"));
}
