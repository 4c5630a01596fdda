#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/unix_socket.h"
#include "control/base/loop/loop.h"

namespace weir::control {

// Who asks, as the kernel knows it (SO_PEERCRED).
struct Caller {
  uid_t uid;
  pid_t pid;
  bool may_change;                                        // what is enforced; else it may only look
  std::shared_ptr<const std::atomic<bool>> is_gone = {};  // nobody waits for the answer any more; null: somebody does
};

// Who may speak besides root and the own user, by group (its own or one of its others). Empty: nobody.
struct Groups {
  std::optional<gid_t> look;    // may ask what changes nothing
  std::optional<gid_t> change;  // may do all that the own user may
};

// A Unix socket that takes a line and answers with one, then ends the connection. The own uid, root and who is in one
// of the groups may speak. The file is the one group's; where both are given anybody may connect, and is asked who he
// is. Part of a loop: no client waits for another, however silent that one is.
class ApiServer {
 public:
  static constexpr size_t kMaxRequestBytes = 160 * 1024;       // of who may look: a command and a key, or a frame
  static constexpr size_t kMaxChangeBytes = 16 * 1024 * 1024;  // of who may change: as many entries as `add` takes
  // Connections at once. One more takes the place of the one that has been silent longest; where none is silent, it is
  // told so and closed. Root and the own user have no share: they find places that others cannot take.
  static constexpr size_t kMaxClients = 128;
  static constexpr size_t kMaxLookers = 64;  // of all who may only look
  static constexpr size_t kMaxOfUser = 32;   // of one other user
  static constexpr int kClientMs = 5000;     // to send a request, and again to take the answer

  // Called once with the answer, by the loop's thread, at any time: also when server or client are gone.
  using Reply = std::function<void(std::string line)>;
  struct Handlers {
    std::function<void(const std::string& line, const Caller& caller, Reply reply)> answer;
    std::function<std::string(const std::string& error)> failure;  // the line that tells of it
    std::function<void(const std::string& error)> log = {};        // empty: it is logged at once
  };

  // Replaces a stale socket file. Error: somebody listens there.
  static Result<std::unique_ptr<ApiServer>> start(Loop& loop, const std::string& path, Handlers handlers,
                                                  int client_ms = kClientMs, Groups groups = {});
  ApiServer(const ApiServer&) = delete;

  // Nobody waits for an answer, or for the rest of it.
  bool is_idle() const;

 private:
  enum class Doing { sending, waiting, taking };  // a request; for its answer; the answer
  struct Client {
    Fd fd;
    Caller caller;
    std::shared_ptr<std::atomic<bool>> is_gone;  // the caller's
    Doing doing = Doing::sending;
    std::string text;  // received, then to be sent
    Loop::Source ready, timer;
  };
  using Id = uint64_t;  // rises: the first one is the oldest

  ApiServer(Loop& loop, unix_socket::Listener listener, Handlers handlers, int client_ms, Groups groups);
  void accept();
  std::optional<Caller> caller_of(int socket) const;  // empty: may not speak
  void begin(Fd fd, const Caller& caller);
  bool make_room(const Caller& caller);
  bool close_silent(const std::function<bool(const Caller&)>& may_be);
  void refuse(Fd fd);
  void wait_to_refuse();
  void tell_refused();
  void end(Id id);
  void receive(Id id);
  void ask(Id id);
  void tell(Id id, std::string line);
  void send_when_ready(Id id);
  void send(Id id);
  void say(const std::string& error) const;

  Loop& loop_;
  unix_socket::Listener listener_;
  const Handlers handlers_;
  const int client_ms_;
  const Groups groups_;
  const Mailbox mailbox_;
  struct Refused {
    Clock::time_point at;
    Fd fd;
  };
  Loop::Source arrived_, refusing_;
  std::deque<Refused> refused_;  // connections without a place, the first one first
  Id next_id_ = 0;
  std::map<Id, Client> clients_;
};

}  // namespace weir::control
