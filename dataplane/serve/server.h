#pragma once

#include <sys/eventfd.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/fd.h"
#include "common/log/log.h"
#include "common/unix_socket.h"
#include "common/wire.h"

namespace weir::dataplane {

constexpr size_t kMaxClients = 16;
constexpr int kMaxWaiting = 1024;  // to be accepted: however many come at once, nobody is turned away

// The socket of a data plane. open_to_all: users besides our own may connect (the server still asks who they are).
Result<unix_socket::Listener> listen_on(const std::string& path, bool open_to_all);

// One answer to one understood request.
struct Answer {
  wire::Type type;  // of the request, or refused
  std::vector<std::byte> body;
};
Answer refuse(std::string_view reason);

// Brings the answer to who asked. To be called once, at once or later, by any thread, also when client or server are
// gone.
using Reply = std::function<void(Answer)>;

// Serves at most kMaxClients connections from one thread. Nothing a client does makes it wait: sockets do not block, a
// client that does not read its answer is closed, and one that comes when all places are taken replaces the client that
// has been silent longest. What takes time is answered when it is done; requests that come meanwhile are not held up.
class Server {
 public:
  using Handler = std::function<void(wire::Message request, Reply reply)>;
  static constexpr unsigned kMaxAsked =
      8;  // requests of one client that are not answered yet: it is not heard for more

  // allow_uid: besides our own user and root. log: of who asked for a change; empty: it is said at once.
  using Log = std::function<void(log::Event event)>;
  Server(unix_socket::Listener& listener, std::vector<uid_t> allow_uid, Handler handler, Log log = {});

  // Until stop_fd (a signalfd) can be read.
  void run(int stop_fd);
  // Serves what is ready, waiting for it at most timeout_ms (-1: as long as it takes). True: stop_fd can be read.
  bool serve_once(int stop_fd, int timeout_ms);
  // Wakes it, so that it turns once more; any thread.
  void nudge() { eventfd_write(outbox_->wake.get(), 1); }
  // How often it has turned; any thread.
  uint64_t turns() const { return turns_.load(std::memory_order_relaxed); }

 private:
  struct Client {
    Fd fd;
    unix_socket::Peer peer;
    uint64_t id;
    uint64_t last_heard;  // in requests served by this server
    unsigned asked = 0;   // and not answered yet
  };
  struct Told {
    uint64_t client;
    uint32_t sequence;
    Answer answer;
  };
  // Shared with the replies, which may outlive the server.
  struct Outbox {
    Fd wake;           // eventfd
    std::mutex mutex;  // guards what follows
    std::vector<Told> told;
  };
  void accept_client();
  bool may_speak(const std::optional<unix_socket::Peer>& peer, std::string& why) const;
  void close_most_silent(std::string_view why);
  bool serve(Client& client);  // false: close it
  void deliver();

  unix_socket::Listener& listener_;
  std::vector<uid_t> allow_uid_;
  Handler handler_;
  Log log_;
  std::shared_ptr<Outbox> outbox_;
  std::vector<Client> clients_;
  uint64_t requests_ = 0, next_id_ = 0;
  std::atomic<uint64_t> turns_ = 0;
  bool is_full_ = false;  // no descriptor was left for the last client; said once
};

}  // namespace weir::dataplane
