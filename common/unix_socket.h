#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/fd.h"
#include "common/result.h"

// Unix sockets that have a path: who listens, who connects, who the other side is.
namespace weir::unix_socket {

enum class Kind { stream, seqpacket };

// A socket that takes connections. Owns its file.
class Listener {
 public:
  // Makes the folder (0755), which nobody else may write (own_folder.h). A socket file that nobody answers on is
  // replaced; anything else in its place is an error. The file has the mode from its first moment, whatever the umask
  // is, and its group before anybody is let in; no path is followed to give them.
  static Result<Listener> open(const std::string& path, Kind kind, mode_t mode, int backlog,
                               std::optional<gid_t> group = std::nullopt);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = delete;
  ~Listener();

  int fd() const { return fd_.get(); }  // does not block; can be read when somebody waits to be accepted
  const std::string& path() const { return path_; }

  // The next connection, which does not block; empty: nobody waits any more. Where this process has no descriptor left,
  // a few are kept back for the next ones. Error: it was closed, because those are gone, too. (Left in the queue, it
  // would wake the caller for ever.) Where the kernel cannot do even that it waits for 1 ms, and the result is empty.
  Result<std::optional<Fd>> accept();
  // False: accept() would close the next one, unless a connection is given back before.
  bool has_room();
  // Closes a connection of accept(). Its descriptor is kept back when others are missing: nobody else in this process,
  // another listener, say, gets it first.
  void give_back(Fd connection);

 private:
  Listener(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) { keep_spares(); }
  void keep_spares();
  Result<std::optional<Fd>> take_next(bool& is_left);  // in the queue, for want of memory or descriptors
  std::string path_;
  Fd fd_;
  std::vector<Fd> spares_;  // full before there are connections; given up one by one, to take connections that there is
                            // no descriptor for
};

// Every later send or receive on it fails after timeout_ms, and so does this when too many wait to be accepted.
// 0: it does not block. Who answers must be root, our own user, or the owner of the socket's folder where root or we
// let him have it; else nothing is sent. (A server that changed its user after listen() is who it was then.)
Result<Fd> connect(const std::string& path, Kind kind, int timeout_ms);

// Sockets that are made ahead, for connections that must be possible when this process has no descriptor left. No
// listener takes their place. A thread that opens a file while one is made anew may take that one's place; that is why
// there are three. One thread at a time.
class Reserve {
 public:
  explicit Reserve(Kind kind) : kind_(kind) { give_back({}); }
  // As connect() with 0 ms.
  Result<Fd> connect(const std::string& path);
  // Closes a connection that it made, or none, and makes a socket in its place.
  void give_back(Fd connection);

 private:
  void fill();
  Kind kind_;
  std::vector<Fd> sockets_;
};

// A socket's time limit for a send and for a receive; 0: none.
Result<void> set_timeout(int socket, int timeout_ms);

// The other side has closed a connection: whoever tired of waiting, while this process could not run, say, wants
// nothing any more. Does not wait.
bool has_gone(int socket);

// Who made the other side of a connection (SO_PEERCRED). Empty: not known.
struct Peer {
  uid_t uid;
  gid_t gid;
  pid_t pid;
};
std::optional<Peer> peer_of(int socket);
// As its own group or one of its others (SO_PEERGROUPS).
bool is_peer_in_group(int socket, gid_t group);

}  // namespace weir::unix_socket
