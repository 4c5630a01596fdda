#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/unix_socket.h"
#include "common/wire.h"

namespace weir::dataplane {

constexpr size_t kMaxClients = 16;  // and so many that wait to be accepted

// The socket of a data plane. open_to_all: users besides our own may connect (the server still asks who they are).
Result<unix_socket::Listener> listen_on(const std::string& path, bool open_to_all);

// One answer to one understood request.
struct Answer {
  wire::Type type;  // of the request, or refused
  std::vector<std::byte> body;
};
Answer refuse(std::string_view reason);

// Serves at most kMaxClients connections from one thread. Nothing a client does makes it wait: sockets do not block, a
// client that does not read its answer is closed, and one that comes when all places are taken replaces the client that
// has been silent longest.
class Server {
 public:
  using Handler = std::function<Answer(const wire::Message&)>;

  // allow_uid: besides our own user and root.
  Server(unix_socket::Listener& listener, std::vector<uid_t> allow_uid, Handler handler)
      : listener_(listener), allow_uid_(std::move(allow_uid)), handler_(std::move(handler)) {}

  // Until stop_fd (a signalfd) can be read.
  void run(int stop_fd);
  // Serves what is ready, waiting for it at most timeout_ms (-1: as long as it takes). True: stop_fd can be read.
  bool serve_once(int stop_fd, int timeout_ms);

 private:
  struct Client {
    Fd fd;
    uint64_t last_heard;  // in requests served by this server
  };
  void accept_client();
  bool may_speak(int fd, std::string& why) const;
  bool serve(Client& client);  // false: close it

  unix_socket::Listener& listener_;
  std::vector<uid_t> allow_uid_;
  Handler handler_;
  std::vector<Client> clients_;
  uint64_t requests_ = 0;
};

}  // namespace weir::dataplane
