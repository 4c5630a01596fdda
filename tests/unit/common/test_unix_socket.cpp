// Sockets with a path: who may listen where, with which mode, and what becomes of what was left behind.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "common/unix_socket.h"
#include "tests/catch.h"
#include "tests/unit/folder.h"
#include "tests/unit/stale_socket.h"

using namespace weir;
using namespace weir::unix_socket;

namespace {
int accept_error = 0;  // what accept4() fails with; 0: it does not
}

// Instead of the C library's.
int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (accept_error == 0) return static_cast<int>(syscall(SYS_accept4, fd, address, size, flags));
  errno = accept_error;
  return -1;
}

namespace {

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

constexpr uid_t kStranger = 65534;

// A server of another user: bound by us, so that he may be anywhere, and listening as him.
class StrangersServer {
 public:
  explicit StrangersServer(const std::string& path) {
    const Fd server(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.data(), path.size());
    REQUIRE(bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool listens = setgid(kStranger) == 0 && setuid(kStranger) == 0 && listen(server.get(), 4) == 0 &&
                           write(ready[1], "1", 1) == 1;
      if (listens) pause();
      _exit(1);
    }
    close(ready[1]);
    char byte = 0;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
  }
  ~StrangersServer() {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }

 private:
  pid_t child_;
};

}  // namespace

TEST_CASE("both kinds are listened on, reached and accepted, and the file goes with its owner") {
  const Folder folder;
  for (const Kind kind : {Kind::stream, Kind::seqpacket}) {
    const std::string path = folder / "made/on/the/way.sock";
    {
      Result<Listener> listener = Listener::open(path, kind, 0600, 4);
      REQUIRE(listener);
      CHECK_FALSE(listener->accept().value());  // nobody waits, and nobody blocks
      const Result<Fd> client = connect(path, kind, 1000);
      REQUIRE(client);
      Result<std::optional<Fd>> server = listener->accept();
      REQUIRE((server && *server));
      CHECK(peer_of((*server)->get())->uid == geteuid());
      REQUIRE(send(client->get(), "hello", 5, 0) == 5);
      char text[8];
      CHECK(recv((*server)->get(), text, sizeof text, 0) == 5);
      CHECK(recv((*server)->get(), text, sizeof text, 0) == -1);  // does not block
    }
    CHECK_FALSE(std::filesystem::exists(path));
  }
}

TEST_CASE("the file has its mode whatever the umask is, and the umask of the process stays") {
  const Folder folder;
  const mode_t before = umask(0077);
  for (const mode_t mode : {0600u, 0660u, 0666u}) {
    const Result<Listener> listener = Listener::open(folder / "s", Kind::seqpacket, mode, 4);
    REQUIRE(listener);
    CHECK(mode_of(folder / "s") == mode);
  }
  CHECK(umask(before) == 0077);
}

TEST_CASE("a live listener stays, a stale socket is replaced, anything else is in the way") {
  const Folder folder;
  const std::string path = folder / "s";
  {
    const Result<Listener> first = Listener::open(path, Kind::stream, 0600, 4);
    REQUIRE(first);
    for (const Kind kind : {Kind::stream, Kind::seqpacket}) {
      const Result<Listener> second = Listener::open(path, kind, 0600, 4);
      REQUIRE_FALSE(second);
      CHECK(second.error().find("another program answers on " + path) == 0);
    }
    CHECK(connect(path, Kind::stream, 1000));  // the attempts took nothing away
  }
  leave_socket(path, SOCK_STREAM);
  CHECK(Listener::open(path, Kind::stream, 0600, 4));
  std::ofstream(path) << "precious";
  CHECK_FALSE(Listener::open(path, Kind::stream, 0600, 4));
  CHECK(std::filesystem::file_size(path) == 8);
}

TEST_CASE("a link in its place is neither followed nor removed") {
  const Folder folder;
  std::ofstream(folder / "file") << "precious";
  std::filesystem::create_symlink(folder / "file", folder / "s");
  CHECK_FALSE(Listener::open(folder / "s", Kind::stream, 0666, 4));
  CHECK(mode_of(folder / "file") != 0666);
  CHECK(std::filesystem::is_symlink(folder / "s"));
}

TEST_CASE("nobody listens in a folder that others may write") {
  const Folder folder;
  const std::string open = folder.make("open");
  REQUIRE(chmod(open.c_str(), 0777) == 0);
  const Result<Listener> listener = Listener::open(open + "/s", Kind::stream, 0600, 4);
  REQUIRE_FALSE(listener);
  CHECK(listener.error().find("the folder " + open + " has mode 0777") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(open + "/s"));
}

TEST_CASE("who answers must be root, we, or the owner of a folder that he was given") {
  if (geteuid() != 0) {
    say_skipped("root: there is nobody else who could answer");
    return;
  }
  const Folder folder;
  const std::string given = folder.make("given"), sticky = folder.make("sticky"), taken = folder.make("sticky/taken");
  REQUIRE(chmod(sticky.c_str(), 01777) == 0);
  for (const std::string& his : {given, taken}) REQUIRE(chown(his.c_str(), kStranger, kStranger) == 0);
  {
    const StrangersServer server(given + "/s");
    CHECK(connect(given + "/s", Kind::stream, 1000));
  }
  for (const std::string& place : {folder / "s", taken + "/s"}) {
    const StrangersServer server(place);
    const Result<Fd> client = connect(place, Kind::stream, 1000);
    REQUIRE_FALSE(client);
    CHECK(client.error().find(" (65534) answers on " + place) != std::string::npos);
  }
}

TEST_CASE("the file has the group that it is given, and the peer's groups are known") {
  const Folder folder;
  const gid_t group = geteuid() == 0 ? 65533 : getegid();
  Result<Listener> listener = Listener::open(folder / "s", Kind::stream, 0660, 4, group);
  REQUIRE(listener);
  struct stat status = {};
  REQUIRE(lstat((folder / "s").c_str(), &status) == 0);
  CHECK(status.st_gid == group);
  CHECK(mode_of(folder / "s") == 0660);
  const Result<Fd> client = connect(folder / "s", Kind::stream, 1000);
  REQUIRE(client);
  const Result<std::optional<Fd>> server = listener->accept();
  REQUIRE((server && *server));
  const std::optional<Peer> peer = peer_of((*server)->get());
  REQUIRE(peer);
  CHECK(peer->uid == geteuid());
  CHECK(peer->pid == getpid());
  CHECK(is_peer_in_group((*server)->get(), getegid()));
  CHECK_FALSE(is_peer_in_group((*server)->get(), 65531));
  std::vector<gid_t> groups(static_cast<size_t>(getgroups(0, nullptr)));
  REQUIRE(getgroups(static_cast<int>(groups.size()), groups.data()) >= 0);
  for (const gid_t one : groups) CHECK(is_peer_in_group((*server)->get(), one));
}

TEST_CASE("a connection waits as long as it was told") {
  const Folder folder;
  const Result<Listener> listener = Listener::open(folder / "s", Kind::seqpacket, 0600, 0);
  REQUIRE(listener);
  const Result<Fd> first = connect(folder / "s", Kind::seqpacket, 50);
  REQUIRE(first);
  const auto begin = std::chrono::steady_clock::now();
  char byte = 0;
  CHECK(recv(first->get(), &byte, 1, 0) == -1);
  CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(45));
  const Result<Fd> second = connect(folder / "s", Kind::seqpacket, 50);  // the queue holds one that is not accepted
  CHECK_FALSE(second);
  const Result<Fd> third = connect(folder / "s", Kind::seqpacket, 0);
  REQUIRE_FALSE(third);
  CHECK(third.error().find("cannot connect to") == 0);
}

TEST_CASE("a path that no socket can have is refused in words") {
  for (const std::string& path : {std::string(), std::string(108, 'x')}) {
    const Result<Listener> listener = Listener::open(path, Kind::stream, 0600, 4);
    REQUIRE_FALSE(listener);
    CHECK(listener.error().find("characters; the system allows 1 to 107") != std::string::npos);
    CHECK_FALSE(connect(path, Kind::stream, 0));
  }
}

TEST_CASE("where no descriptor is left a few connections are taken all the same, and others do not wake the listener") {
  const Folder folder;
  Result<Listener> listener = Listener::open(folder / "s", Kind::stream, 0600, 8);
  REQUIRE(listener);
  std::vector<Fd> clients;
  for (int i = 0; i < 5; i++) clients.push_back(std::move(*connect(folder / "s", Kind::stream, 1000)));
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Fd last(dup(clients.front().get()));  // the lowest number that was free: below it there is none
  const rlimit none_left = {static_cast<rlim_t>(last.get()) + 1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  std::vector<Fd> taken;
  int closed = 0;
  for (int i = 0; i < 5; i++) {
    Result<std::optional<Fd>> accepted = listener->accept();
    if (!accepted) closed++;
    if (accepted && *accepted) taken.push_back(std::move(**accepted));
  }
  const bool is_empty = !listener->accept().value();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(taken.size() == 3);
  CHECK(closed == 2);
  CHECK(is_empty);
  Result<Fd> next = connect(folder / "s", Kind::stream, 1000);
  REQUIRE(next);
  const Result<std::optional<Fd>> accepted = listener->accept();
  CHECK((accepted && *accepted));
}

TEST_CASE("a descriptor that is given back is not lost to another listener, however many come there") {
  const Folder folder;
  Result<Listener> one = Listener::open(folder / "one", Kind::stream, 0600, 64);
  Result<Listener> other = Listener::open(folder / "other", Kind::stream, 0600, 64);
  REQUIRE((one && other));
  std::vector<Fd> clients;
  for (int i = 0; i < 40; i++) {
    clients.push_back(std::move(*connect(folder / (i % 2 == 0 ? "one" : "other"), Kind::stream, 1000)));
  }
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Fd last(dup(clients.front().get()));
  const rlimit none_left = {static_cast<rlim_t>(last.get()) + 1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  std::vector<Fd> taken, of_other;
  int n_taken = 0;
  for (int i = 0; i < 20; i++) {  // each newcomer takes the place of the one before it
    while (!one->has_room() && !taken.empty()) {
      one->give_back(std::move(taken.front()));
      taken.erase(taken.begin());
    }
    Result<std::optional<Fd>> accepted = one->accept();
    if (accepted && *accepted) {
      taken.push_back(std::move(**accepted));
      n_taken++;
    }
    Result<std::optional<Fd>> elsewhere = other->accept();
    if (elsewhere && *elsewhere) of_other.push_back(std::move(**elsewhere));
  }
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(n_taken == 20);
  CHECK(of_other.size() == 3);
}

TEST_CASE("connections of a reserve are possible while no descriptor is left and a listener takes each that is free") {
  const Folder folder;
  const Result<Listener> server = Listener::open(folder / "server", Kind::seqpacket, 0600, 4);
  Result<Listener> hungry = Listener::open(folder / "hungry", Kind::stream, 0600, 64);
  REQUIRE((server && hungry));
  std::vector<Fd> clients;
  for (int i = 0; i < 40; i++) clients.push_back(std::move(*connect(folder / "hungry", Kind::stream, 1000)));
  Reserve reserve(Kind::seqpacket);
  std::vector<Fd> taken;
  taken.reserve(clients.size());
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Fd last(dup(clients.front().get()));
  const rlimit none_left = {static_cast<rlim_t>(last.get()) + 1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  std::atomic<bool> is_over = false;
  std::thread thief([&] {
    while (!is_over) {
      if (!hungry->has_room()) continue;  // its own spares are not given up
      Result<std::optional<Fd>> accepted = hungry->accept();
      if (accepted && *accepted) taken.push_back(std::move(**accepted));
    }
  });
  std::string refused;
  for (int i = 0; i < 20'000 && refused.empty(); i++) {
    const Result<Fd> connection = reserve.connect(folder / "nobody");  // closed, and made anew
    if (connection.error().find("cannot connect to") != 0) refused = connection.error();
  }
  const Result<Fd> connection = reserve.connect(folder / "server");
  is_over = true;
  thief.join();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(refused == "");
  CHECK(connection);
  CHECK(taken.size() == 3);  // which the listener had kept back itself
}

TEST_CASE("who waits for connections does not turn without a pause while the kernel has no memory for one") {
  const Folder folder;
  Result<Listener> listener = Listener::open(folder / "s", Kind::stream, 0600, 8);
  REQUIRE(listener);
  const Result<Fd> client = connect(folder / "s", Kind::stream, 1000);
  REQUIRE(client);
  for (const int error : {ENOMEM, ENOBUFS, EMFILE, ENFILE}) {
    accept_error = error;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; i++) {
      const Result<std::optional<Fd>> accepted = listener->accept();
      CHECK((accepted && !*accepted));
    }
    CHECK(std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20));
  }
  accept_error = 0;
  const Result<std::optional<Fd>> accepted = listener->accept();
  CHECK((accepted && *accepted));
}

TEST_CASE("a client has gone when it closed, and neither while it waits nor when it said all it will say") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  Fd client(ends[0]);
  const Fd served(ends[1]);
  CHECK_FALSE(has_gone(served.get()));
  REQUIRE(send(client.get(), "x", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(shutdown(client.get(), SHUT_WR) == 0);
  CHECK_FALSE(has_gone(served.get()));
  client.reset();
  CHECK(has_gone(served.get()));
}
