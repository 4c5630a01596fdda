// The API's socket: lines in, lines out, and clients of every kind.
#include <sys/socket.h>

#include "common/unix_socket.h"
#include "control/daemon/api.h"
#include "tests/unit/control/support/support.h"
#include "tests/unit/stale_socket.h"

using namespace weir;
using namespace weir::control;

namespace {

// A server on a loop that a thread turns.
class Served {
 public:
  explicit Served(const std::string& path, int client_ms = 20'000) : path_(path) {
    const auto answer = [this](const std::string& line, const ApiServer::Reply& reply) {
      if (line == "wait") {
        waiting_.push_back(reply);
      } else if (line == "release") {
        for (const ApiServer::Reply& one : std::exchange(waiting_, {})) one("released\n");
        reply("done\n");
      } else if (line == "huge") {
        reply(std::string(8 << 20, 'x') + "\n");
      } else {
        reply("echo " + line + "\n");
      }
    };
    const auto failure = [](const std::string& error) { return "failure " + error + "\n"; };
    auto server = ApiServer::start(loop_, path, {answer, failure}, client_ms);
    REQUIRE(server);
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Served() {
    loop_.stop();
    thread_.join();
  }
  Fd connect() const {
    Result<Fd> fd = unix_socket::connect(path_, unix_socket::Kind::stream, 20'000);
    REQUIRE(fd);
    return std::move(*fd);
  }
  // The raw answer to raw bytes; end: also says that no more comes.
  std::string call(const std::string& bytes, bool end = false) const {
    const Fd fd = connect();
    say(fd, bytes);
    if (end) shutdown(fd.get(), SHUT_WR);
    return hear(fd);
  }
  static void say(const Fd& fd, const std::string& bytes) {
    size_t sent = 0;
    while (sent < bytes.size()) {
      const ssize_t put = send(fd.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (put < 0) break;  // refused before all of it was read
      sent += static_cast<size_t>(put);
    }
  }
  static std::string hear(const Fd& fd) {
    std::string text;
    char chunk[65536];
    for (ssize_t got; (got = recv(fd.get(), chunk, sizeof chunk, 0)) > 0;) text.append(chunk, static_cast<size_t>(got));
    return text;
  }

 private:
  const std::string path_;
  Loop loop_;
  std::vector<ApiServer::Reply> waiting_;
  std::unique_ptr<ApiServer> server_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("the API answers everybody who may speak, whatever they say") {
  const Folder folder;
  const std::string path = folder / "api.sock";
  const Served served(path, 100);
  CHECK(served.call("x\n") == "echo x\n");
  CHECK(served.call("x", true) == "echo x\n");
  CHECK(served.call("x\ny\n") == "echo x\n");
  CHECK(served.call("\n") == "echo \n");
  CHECK(served.call("", true) == "echo \n");
  CHECK(served.call(std::string(ApiServer::kMaxRequestBytes, '[') + "\n").size() == ApiServer::kMaxRequestBytes + 6);
  CHECK(served.call(std::string(ApiServer::kMaxRequestBytes + 1, ' ')) == "failure request of more than 65536 bytes\n");
  CHECK(served.call("begun") == "failure no complete request line in time\n");  // and then silence

  Loop loop;
  const auto second = ApiServer::start(loop, path, {});
  REQUIRE_FALSE(second);
  CHECK(second.error().find("already") != std::string::npos);
}

TEST_CASE("no client waits for another") {
  const Folder folder;
  const Served served(folder / "api.sock");
  std::vector<Fd> silent, asking;
  for (size_t i = 0; i < ApiServer::kMaxClients / 2; i++) {
    silent.push_back(served.connect());
    asking.push_back(served.connect());
    Served::say(asking.back(), "wait\n");
  }
  CHECK(served.call("x\n") == "echo x\n");
  CHECK(served.call("release\n") == "done\n");
  for (const Fd& fd : asking) CHECK(Served::hear(fd) == "released\n");
}

TEST_CASE("one too many takes the place of the one that has been silent longest") {
  const Folder folder;
  const Served served(folder / "api.sock");
  std::vector<Fd> silent;
  const Fd asking = served.connect();
  Served::say(asking, "wait\n");
  CHECK(served.call("x\n") == "echo x\n");  // by now `wait` was heard
  for (size_t i = 0; i < 10 * ApiServer::kMaxClients; i++) silent.push_back(served.connect());
  CHECK(served.call("x\n") == "echo x\n");
  CHECK(Served::hear(silent.front()).empty());
  Served::say(silent.back(), "y\n");
  CHECK(Served::hear(silent.back()) == "echo y\n");
  CHECK(served.call("release\n") == "done\n");
  CHECK(Served::hear(asking) == "released\n");
}

TEST_CASE("a long answer arrives whole, and one that nobody takes is given up") {
  const Folder folder;
  {
    const Served served(folder / "api.sock");
    CHECK(served.call("huge\n").size() == (8 << 20) + 1);
    const Fd gone = served.connect();
    Served::say(gone, "wait\n");
  }
  const Served impatient(folder / "api.sock", 50);
  const Fd lazy = impatient.connect();
  Served::say(lazy, "huge\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const size_t taken = Served::hear(lazy).size();
  CHECK(taken > 0);
  CHECK(taken < (8 << 20));
  CHECK(impatient.call("release\n") == "done\n");
}

TEST_CASE("a socket that a killed controld left is replaced; another file is not") {
  const Folder folder;
  Loop loop;
  leave_socket(folder / "api.sock", SOCK_STREAM);
  CHECK(ApiServer::start(loop, folder / "api.sock", {}));
  folder.write("file", "precious");
  CHECK_FALSE(ApiServer::start(loop, folder / "file", {}));
  CHECK(folder.read("file") == "precious");
}
