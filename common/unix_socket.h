#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "common/fd.h"
#include "common/result.h"

// Unix sockets that have a path: who listens, who connects, who the other side is.
namespace weir::unix_socket {

enum class Kind { stream, seqpacket };

// A socket that takes connections. Owns its file.
class Listener {
 public:
  // Makes the folder (0755). A socket file that nobody answers on is replaced; anything else in its place is an error.
  // The file has the mode from its first moment, whatever the umask is; no path is followed to give it.
  static Result<Listener> open(const std::string& path, Kind kind, mode_t mode, int backlog);
  Listener(Listener&&) noexcept = default;
  Listener& operator=(Listener&&) noexcept = delete;
  ~Listener();

  int fd() const { return fd_.get(); }  // does not block; can be read when somebody waits to be accepted
  const std::string& path() const { return path_; }

  // The next connection, which does not block; empty: nobody waits any more. Error: it was closed, because this process
  // has no descriptor left. (Left in the queue, it would wake the caller for ever.)
  Result<std::optional<Fd>> accept();

 private:
  Listener(std::string path, Fd fd, Fd spare) : path_(std::move(path)), fd_(std::move(fd)), spare_(std::move(spare)) {}
  std::string path_;
  Fd fd_;
  Fd spare_;  // given up for a moment, to take a connection that there is no descriptor for
};

// Every later send or receive on it fails after timeout_ms, and so does this when too many wait to be accepted.
// 0: it does not block.
Result<Fd> connect(const std::string& path, Kind kind, int timeout_ms);

// A socket's time limit for a send and for a receive; 0: none.
Result<void> set_timeout(int socket, int timeout_ms);

// Who made the other side of a connection (SO_PEERCRED). Empty: not known.
std::optional<uid_t> peer_uid(int socket);

}  // namespace weir::unix_socket
