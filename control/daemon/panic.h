#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/log/log.h"
#include "common/realtime.h"
#include "common/unix_socket.h"
#include "control/base/loop/loop.h"
#include "control/base/loop/waits.h"
#include "control/base/loop/worker.h"
#include "control/daemon/api.h"
#include "control/enforce/publish/place.h"
#include "control/enforce/publish/store.h"
#include "control/enforce/targets/kinds.h"
#include "control/enforce/targets/target.h"
#include "control/tell/answer/parts.h"

namespace weir::control {

// The panic switch: `bypass on` and `off`, and `detach`. A thread with a loop, a socket and connections of its own,
// which nothing but these orders uses: no reload, no client, no publication and no disk that hangs can delay it. An
// order is always sent, whatever a target was thought to do, and repeated until it is confirmed. What is remembered on
// disk may be changed by controlctl, which gives orders itself while this process cannot: before a target is told to do
// as before, the disk is asked, but not waited for for long. Every method: any thread.
class PanicSwitch {
 public:
  // What is wanted of who is not reached is kept: it is told when it comes back.
  struct Report {
    bool on = false;
    std::vector<TargetOutcome> targets;  // acknowledged: in force, and on the target's disk
    Result<void> remembered;             // on disk
  };
  struct Hooks {
    // A target confirmed. Called by the switch's thread, as are all callbacks.
    std::function<void(const std::string& target, bool on)> confirmed;
    // Of its own API: as ApiServer::Handlers.
    std::function<void(PanicSwitch& panic, const std::string& line, const Caller& caller, ApiServer::Reply reply)>
        answer;
    std::function<std::string(const std::string& error)> failure;
  };

  // socket: of its own API; empty: none. place: where the targets are written down for controlctl; empty: nowhere.
  // admins: whose members may give orders, besides root and our own user. urgent: starts the threads that an order
  // waits for.
  static Result<std::unique_ptr<PanicSwitch>> start(realtime::Starter& urgent, const std::string& socket,
                                                    Planes& planes, Store& store, TargetTimes times, Hooks hooks,
                                                    Place place = {}, std::optional<gid_t> admins = {});
  ~PanicSwitch();
  PanicSwitch(const PanicSwitch&) = delete;

  bool is_on() const { return on_; }
  // Takes XDP off the interface (empty: off all), as XdpPlane::detach. done: by the switch's thread.
  void detach(const std::string& interface, std::function<void(const XdpPlane::Names&)> done);
  // A target was told otherwise by somebody else: by controlctl, perhaps, which then changed what is remembered.
  void look_again();
  // Why the last order would not outlive a restart of controld; empty: it would.
  std::string disk_error() const;
  // To the log, which may hang: nobody waits for it.
  void log(log::Event event);
  // The disk does not answer, or the log.
  bool is_busy() { return disk_.is_busy() || log_.is_busy(); }
  // Of those that went away, nothing more is wanted; those that are new hear of it when somebody tells them.
  void set_targets(std::vector<TargetSpec> targets);
  // To all targets, then to disk. Reports when all have confirmed but those that are not reached, and after
  // times.switched at the latest.
  void order(bool on, std::function<void(const Report&)> done);
  // This target does not answer others, either: it is told all the same, and not waited for. Until it is greeted.
  void lose(const std::string& target, const std::string& why);
  // This target is there again: it hears the last order, if there ever was one. known: what it said of itself. Calls
  // back when it confirmed, and after times.answer at the latest.
  void greet(const std::string& target, bool known, std::function<void()> done);

 private:
  struct Line {  // to one target
    TargetSpec spec;
    uint64_t wanted = 0, confirmed = 0;                          // numbers of orders
    bool is_news = false;                                        // to be logged when it is confirmed
    std::string error;                                           // of the last attempt to tell it
    std::string lost;                                            // why it does not answer others; empty: it does
    int pause_ms = 0;                                            // before it is told again
    std::string not_durable;                                     // why what it confirmed would not outlive its restart
    uint32_t sequence = 0;                                       // of the last message
    unix_socket::Reserve sockets{unix_socket::Kind::seqpacket};  // the next order finds one
    Fd connection;
    Loop::Source readable, again;
    bool is_confirmed() const { return confirmed >= wanted; }
    bool is_away() const { return !error.empty() || !lost.empty(); }
    void close();
  };

  PanicSwitch(Planes& planes, Store& store, TargetTimes times, Hooks hooks, Place place);
  Result<void> start_threads();
  void take_order(bool on, const std::function<void(const Report&)>& done);
  void tell(Line& line);
  void tell_later(Line& line, const std::string& error);
  void receive(Line& line);
  void take_confirmation(Line& line, std::string not_durable);
  void remember(bool on, uint64_t number);
  void ask_disk(const std::function<void()>& then);
  void adopt(std::optional<bool> ordered);
  void forget_when_told();
  Line* find(const std::string& target);
  Report report(bool on, uint64_t number) const;

  Planes& planes_;
  Store& store_;
  const TargetTimes times_;
  const Hooks hooks_;
  Place place_;  // its targets: the disk's thread
  std::atomic<bool> on_ = false;
  mutable std::mutex mutex_;  // guards what follows
  std::string disk_error_;

  // The thread's.
  Loop loop_;
  Waits waits_{loop_};
  std::unique_ptr<Mailbox> mailbox_ = std::make_unique<Mailbox>(loop_);
  std::unique_ptr<ApiServer> api_;
  std::list<Line> lines_;
  std::optional<bool> wanted_;
  uint64_t orders_ = 0;
  std::atomic<uint64_t> newest_order_ = 0;  // of those that were given; greetings repeat it. The disk's, too
  uint64_t remembered_order_ = 0;           // the newest that the disk has, or refused
  Result<void> remembered_;
  uint64_t to_be_told_ = 0;  // off: the order that all must confirm before it is forgotten; 0: all did
  Loop::Source remember_again_, wait_no_longer_;
  std::array<Fd, 2> detach_spares_;  // the detacher's: for a folder and a pin in it
  Worker log_;                       // a log that hangs holds this alone
  Worker disk_;                      // as does a disk
  Worker detacher_;                  // and locks of the network

  std::thread thread_;
};

}  // namespace weir::control
