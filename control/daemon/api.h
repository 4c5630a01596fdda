#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "common/unix_socket.h"
#include "control/loop/loop.h"

namespace weir::control {

// A Unix socket that takes a line and answers with one, then ends the connection. Only the own uid and root may speak.
// Part of a loop: no client waits for another, however silent that one is.
class ApiServer {
 public:
  static constexpr size_t kMaxRequestBytes = 64 * 1024;  // requests are a command and a key
  static constexpr size_t kMaxClients = 64;  // one more takes the place of the one that has been silent longest
  static constexpr int kClientMs = 5000;     // to send a request, and again to take the answer

  // Called once with the answer, by the loop's thread, at any time: also when server or client are gone.
  using Reply = std::function<void(std::string line)>;
  struct Handlers {
    std::function<void(const std::string& line, Reply reply)> answer;
    std::function<std::string(const std::string& error)> failure;  // the line that tells of it
  };

  // Replaces a stale socket file. Error: somebody listens there.
  static Result<std::unique_ptr<ApiServer>> start(Loop& loop, const std::string& path, Handlers handlers,
                                                  int client_ms = kClientMs);
  ApiServer(const ApiServer&) = delete;

  // Nobody waits for an answer, or for the rest of it.
  bool is_idle() const;

 private:
  enum class Doing { sending, waiting, taking };  // a request; for its answer; the answer
  struct Client {
    Fd fd;
    Doing doing = Doing::sending;
    std::string text;  // received, then to be sent
    Loop::Source ready, timer;
  };
  using Id = uint64_t;  // rises: the first one is the oldest

  ApiServer(Loop& loop, unix_socket::Listener listener, Handlers handlers, int client_ms);
  void accept();
  void begin(Fd fd);
  bool make_room();
  void receive(Id id);
  void ask(Id id);
  void tell(Id id, std::string line);
  void send(Id id);

  Loop& loop_;
  unix_socket::Listener listener_;
  const Handlers handlers_;
  const int client_ms_;
  const Mailbox mailbox_;
  Loop::Source arrived_;
  Id next_id_ = 0;
  std::map<Id, Client> clients_;
};

}  // namespace weir::control
