// Sockets with a path: who may listen where, with which mode, and what becomes of what was left behind.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "common/unix_socket.h"
#include "tests/catch.h"
#include "tests/unit/stale_socket.h"

using namespace weir;
using namespace weir::unix_socket;

namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "weir-socket-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

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
      CHECK(peer_uid((*server)->get()) == geteuid());
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

TEST_CASE("a connection that there is no descriptor for is closed, and does not wake the listener for ever") {
  const Folder folder;
  Result<Listener> listener = Listener::open(folder / "s", Kind::stream, 0600, 4);
  REQUIRE(listener);
  const Result<Fd> client = connect(folder / "s", Kind::stream, 1000);
  REQUIRE(client);
  rlimit before = {};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const Fd last(dup(client->get()));  // the lowest number that was free: below it there is none
  const rlimit none_left = {static_cast<rlim_t>(last.get()) + 1, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &none_left) == 0);
  const bool refused = !listener->accept();
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(refused);
  Result<Fd> next = connect(folder / "s", Kind::stream, 1000);
  REQUIRE(next);
  const Result<std::optional<Fd>> accepted = listener->accept();
  CHECK((accepted && *accepted));
}
