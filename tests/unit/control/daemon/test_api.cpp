// The API's socket: lines in, lines out, and clients of every kind.
#include <grp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

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
  explicit Served(const std::string& path, int client_ms = 20'000, Groups groups = {}) : path_(path) {
    const auto answer = [this](const std::string& line, const Caller& caller, const ApiServer::Reply& reply) {
      if (line == "who") {
        reply(std::to_string(caller.uid) + (caller.may_change ? " changes\n" : " looks\n"));
      } else if (line == "wait") {
        waiting_.push_back(reply);
        n_waiting_++;
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
    auto server = ApiServer::start(loop_, path, {answer, failure}, client_ms, groups);
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
  bool until_waiting(size_t n) const {
    return eventually([&] { return n_waiting_ == n; });
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
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) break;  // refused before all of it was read
      sent += static_cast<size_t>(put);
    }
  }
  static std::string hear(const Fd& fd) {
    std::string text;
    char chunk[65536];
    while (true) {  // a process that was stopped for a while is told that it was interrupted
      const ssize_t got = recv(fd.get(), chunk, sizeof chunk, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return text;
      text.append(chunk, static_cast<size_t>(got));
    }
  }

 private:
  const std::string path_;
  Loop loop_;
  std::vector<ApiServer::Reply> waiting_;
  std::atomic<size_t> n_waiting_ = 0;
  std::unique_ptr<ApiServer> server_;
  std::thread thread_;
};

constexpr uid_t kStranger = 65534;
constexpr gid_t kReaders = 65533, kOthers = 65532, kAdmins = 65531;

// What another user is told who says "who"; empty: nothing.
std::string told_to_stranger(const std::string& path, gid_t group, std::vector<gid_t> more) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    std::string text = "cannot connect";
    if (setgroups(more.size(), more.data()) == 0 && setgid(group) == 0 && setuid(kStranger) == 0) {
      const Result<Fd> fd = unix_socket::connect(path, unix_socket::Kind::stream, 20'000);
      if (fd) Served::say(*fd, "who\n"), text = Served::hear(*fd);
    }
    _exit(write(ends[1], text.data(), text.size()) < 0);
  }
  close(ends[1]);
  const Fd end(ends[0]);
  char text[64];
  const ssize_t got = read(end.get(), text, sizeof text);
  waitpid(child, nullptr, 0);
  return std::string(text, static_cast<size_t>(std::max<ssize_t>(got, 0)));
}

// By the server's thread: how many bytes there still is memory for, and how many sends are refused then.
std::atomic<int64_t> taken_bytes = 0;
std::atomic<int> refused_sends = 0;

}  // namespace

// Instead of libc's.
extern "C" __attribute__((used, visibility("default"))) ssize_t send(int socket, const void* from, size_t size,
                                                                     int flags) {
  if (refused_sends > 0 && gettid() != getpid()) {
    if (taken_bytes <= 0) {
      refused_sends--;
      errno = ENOBUFS;
      return -1;
    }
    size = std::min<size_t>(size, static_cast<size_t>(taken_bytes));
    taken_bytes -= static_cast<int64_t>(size);
  }
  return syscall(SYS_sendto, socket, from, size, flags, nullptr, 0);
}

TEST_CASE("an answer that the kernel has no memory for is sent a moment later, all of it") {
  const Folder folder;
  const Served served(folder / "api.sock");
  for (const int64_t taken : {0, 4, 100'000}) {
    CAPTURE(taken);
    taken_bytes = taken;
    refused_sends = 3;
    const std::string answer = served.call("huge\n");
    CHECK(answer.size() == (8 << 20) + 1);
    CHECK(answer.find_first_not_of('x') == size_t{8 << 20});  // two texts of 8 MiB take minutes to print
    CHECK(refused_sends.load() == 0);
  }
}

TEST_CASE("who takes no answer that the kernel has no memory for is let go when the time is over") {
  const Folder folder;
  const Served served(folder / "api.sock", 200);
  taken_bytes = 0;
  refused_sends = 1'000'000;
  CHECK(served.call("one\n").empty());
  refused_sends = 0;
  CHECK(eventually([&] { return served.call("one\n") == "echo one\n"; }));  // when it is said in time
}

TEST_CASE("members of the read group may look, root and the owner may change, nobody else speaks") {
  const Folder folder;
  if (geteuid() != 0) {
    say_skipped("root: nobody else can ask");
    return;
  }
  REQUIRE(chmod((folder / ".").c_str(), 0755) == 0);
  const Served served(folder / "api.sock", 20'000, {kReaders, std::nullopt});
  CHECK(served.call("who\n") == "0 changes\n");
  CHECK(told_to_stranger(folder / "api.sock", kReaders, {}) == "65534 looks\n");
  CHECK(told_to_stranger(folder / "api.sock", kOthers, {kReaders}) == "65534 looks\n");
  CHECK(told_to_stranger(folder / "api.sock", kOthers, {}) == "cannot connect");
  REQUIRE(chmod((folder / "api.sock").c_str(), 0666) == 0);  // were the file open to all, the server asks who it is
  CHECK(told_to_stranger(folder / "api.sock", kOthers, {}).empty());
}

TEST_CASE("members of the admin group may change, as the owner may") {
  const Folder folder;
  if (geteuid() != 0) {
    say_skipped("root: nobody else can ask");
    return;
  }
  REQUIRE(chmod((folder / ".").c_str(), 0755) == 0);
  const auto told = [&](const std::string& name, const Groups& groups) {
    const Served served(folder / name, 20'000, groups);
    CHECK(served.call("who\n") == "0 changes\n");
    return std::vector{
        told_to_stranger(folder / name, kOthers, {kAdmins}), told_to_stranger(folder / name, kAdmins, {}),
        told_to_stranger(folder / name, kOthers, {kReaders}), told_to_stranger(folder / name, kAdmins, {kReaders}),
        told_to_stranger(folder / name, kOthers, {})};
  };
  const std::string changes = "65534 changes\n", looks = "65534 looks\n", no = "cannot connect";
  CHECK(told("both", {kReaders, kAdmins}) == std::vector<std::string>{changes, changes, looks, changes, ""});
  CHECK(told("admins", {std::nullopt, kAdmins}) == std::vector<std::string>{changes, changes, no, changes, no});
  CHECK(told("one for both", {kAdmins, kAdmins}) == std::vector<std::string>{changes, changes, no, changes, no});
}

TEST_CASE("a user who waits in all places of his share holds up nobody else") {
  const Folder folder;
  if (geteuid() != 0) {
    say_skipped("root: nobody else can ask");
    return;
  }
  REQUIRE(chmod((folder / ".").c_str(), 0755) == 0);
  const Served served(folder / "api.sock", 20'000, {kReaders, std::nullopt});
  int told[2];
  REQUIRE(pipe(told) == 0);
  constexpr size_t kMore = 5;
  const pid_t child = fork();
  if (child == 0) {
    // The server refuses connections past the share, in any order; the others wait, and are answered.
    bool is_well = setgroups(0, nullptr) == 0 && setgid(kReaders) == 0 && setuid(kStranger) == 0;
    std::vector<Fd> waiting;
    size_t refused = 0;
    for (size_t i = 0; i < ApiServer::kMaxOfUser + kMore && is_well; i++) {
      Result<Fd> fd = unix_socket::connect(folder / "api.sock", unix_socket::Kind::stream, 20'000);
      is_well = static_cast<bool>(fd);
      if (fd) Served::say(*fd, "wait\n"), waiting.push_back(std::move(*fd));
    }
    while (refused < kMore && is_well) {
      std::vector<pollfd> ready;
      for (const Fd& fd : waiting) ready.push_back({fd.get(), POLLIN, 0});
      is_well = poll(ready.data(), ready.size(), 20'000) > 0;
      for (size_t i = ready.size(); i-- > 0 && is_well;) {
        if (ready[i].revents == 0) continue;
        is_well = Served::hear(waiting[i]) == "failure too many connections wait for answers: ask again\n";
        waiting.erase(waiting.begin() + static_cast<ptrdiff_t>(i));
        refused++;
      }
    }
    is_well = is_well && waiting.size() == ApiServer::kMaxOfUser && write(told[1], "!", 1) == 1;
    for (const Fd& fd : waiting) is_well = is_well && Served::hear(fd) == "released\n";
    _exit(is_well ? 0 : 1);
  }
  close(told[1]);
  const Fd end(told[0]);
  char text = 0;
  CHECK(read(end.get(), &text, 1) == 1);
  CHECK(served.call("x\n") == "echo x\n");
  CHECK(served.call("release\n") == "done\n");
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("each connection past all places is told so, however many come") {
  const Folder folder;
  const Served served(folder / "api.sock");
  constexpr size_t kMore = 280;  // than may wait to be told
  std::vector<Fd> waiting, refused;
  for (size_t i = 0; i < ApiServer::kMaxClients; i++) Served::say(waiting.emplace_back(served.connect()), "wait\n");
  REQUIRE(served.until_waiting(ApiServer::kMaxClients));
  for (size_t i = 0; i < kMore; i++) Served::say(refused.emplace_back(served.connect()), "x\n");
  size_t told = 0;
  for (const Fd& fd : refused) told += Served::hear(fd) == "failure too many connections wait for answers: ask again\n";
  CHECK(told == kMore);
  waiting.pop_back();
  CHECK(eventually([&] { return served.call("release\n") == "done\n"; }));
  for (const Fd& fd : waiting) CHECK(Served::hear(fd) == "released\n");
}

TEST_CASE("the API answers everybody who may speak, whatever they say") {
  const Folder folder;
  const std::string path = folder / "api.sock";
  const Served served(path);
  CHECK(served.call("x\n") == "echo x\n");
  CHECK(served.call("x", true) == "echo x\n");
  CHECK(served.call("x\ny\n") == "echo x\n");
  CHECK(served.call("\n") == "echo \n");
  CHECK(served.call("", true) == "echo \n");
  CHECK(served.call(std::string(ApiServer::kMaxRequestBytes, '[') + "\n").size() == ApiServer::kMaxRequestBytes + 6);
  CHECK(served.call(std::string(ApiServer::kMaxChangeBytes + 1, ' ')) ==
        "failure request of more than 16777216 bytes\n");
  const Served impatient(folder / "impatient.sock", 100);
  CHECK(impatient.call("begun") == "failure no complete request line in time\n");  // and then silence

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

TEST_CASE("an answer that is being taken is not given up for newcomers") {
  const Folder folder;
  const Served served(folder / "api.sock");
  const Fd taking = served.connect();
  Served::say(taking, "huge\n");
  std::vector<Fd> others;
  for (size_t i = 0; i < 2 * ApiServer::kMaxClients; i++) others.push_back(served.connect());
  CHECK(served.call("x\n") == "echo x\n");
  CHECK(Served::hear(taking).size() == (8 << 20) + 1);
}

TEST_CASE("a long answer arrives whole, and one that nobody takes is given up") {
  const Folder folder;
  {
    const Served served(folder / "api.sock");
    CHECK(served.call("huge\n").size() == (8 << 20) + 1);
    const Fd gone = served.connect();
    Served::say(gone, "wait\n");
  }
  const Served impatient(folder / "api.sock", 200);
  const Fd lazy = impatient.connect();
  Served::say(lazy, "huge\n");
  CHECK(eventually([&] {
    pollfd closed = {lazy.get(), 0, 0};
    return poll(&closed, 1, 0) == 1 && (closed.revents & POLLHUP) != 0;
  }));
  const size_t taken = Served::hear(lazy).size();
  CHECK(taken > 0);
  CHECK(taken < (8 << 20));
  CHECK(eventually([&] { return impatient.call("release\n") == "done\n"; }));  // when it is said in time
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
