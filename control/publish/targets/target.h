#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "common/fd.h"
#include "common/telemetry.h"
#include "common/wire.h"
#include "control/publish/store.h"

namespace weir::control {

using Clock = std::chrono::steady_clock;

// Patience, in milliseconds. Tests shorten it.
struct TargetTimes {
  int retry = 200;       // between attempts to reach a target that is away
  int refresh = 1000;    // between looks at a target that is there
  int answer = 2000;     // for status, stats and bypass: a target that is silent for longer is dropped and reached anew
  int publish = 60'000;  // for a publication: copying and syncing the largest snapshot to a slow disk
};

// What a data plane measures of itself.
struct TargetTelemetry {
  std::vector<wire::Telemetry> workers;
  wire::Ports ports;
};

// What is known of one enforcer.
struct TargetState {
  std::string socket;  // or what else names it
  bool is_xdp = false;
  bool connected = false;
  std::optional<wire::StatusBody> status;                      // as last told; empty: never reached
  std::optional<wire::Stats> stats;                            // as last told
  std::optional<TargetTelemetry> telemetry;                    // as last told
  std::optional<std::vector<wire::InterfaceBody>> interfaces;  // of the XDP plane, as last told
  wire::Generation acknowledged;                               // newest of ours that it enforces and has on disk
  std::optional<wire::PublishedBody> answer;                   // to the last publication
  Clock::time_point acknowledged_at;
  bool publishing = false;  // a publication is on its way
  std::string last_error;   // why it is away, or did not take the last publication; empty = well
};

// One enforcer: a thread that owns the connection, reaches the target again when it went away, and brings it what it
// should have. Other threads say what that is and read what is known; none of them ever waits for the socket, only for
// as long as they choose.
class TargetLink {
 public:
  // A data plane.
  explicit TargetLink(std::string socket, TargetTimes times = {});
  // The XDP plane: has interfaces instead of workers. connect is called by the thread, and again after an error.
  using Connect = std::function<Result<Fd>()>;
  TargetLink(std::string name, Connect connect, TargetTimes times = {});
  ~TargetLink();
  TargetLink(const TargetLink&) = delete;

  // From now on the target should enforce this one. Sent when the target does not have it already.
  void publish(std::shared_ptr<const Publication> publication);
  // From now on the target should (not) bypass. Never called: a target's own switch is left as it is.
  void bypass(bool on);

  // Ends the thread's work and every wait, also when the target hangs. The destructor does it too.
  void stop();

  TargetState state() const;
  const std::string& socket() const { return socket_; }
  bool is_xdp() const { return is_xdp_; }

  // Each waits until the target has confirmed, or until the deadline; true when it did.
  bool wait_acknowledged(wire::Generation generation, Clock::time_point deadline) const;
  bool wait_bypass(bool on, Clock::time_point deadline) const;
  // Asks for fresh counters; false: state().stats is what was told last.
  bool refresh_stats(Clock::time_point deadline);
  // The same for state().telemetry.
  bool refresh_telemetry(Clock::time_point deadline);

 private:
  enum class Task { connect, bypass, publish, stats, telemetry, status, idle, stop };

  // Answers that are asked for anew each time.
  struct Fresh {
    uint64_t asked = 0, answered = 0;
    bool wanted() const { return answered < asked; }
  };

  TargetLink(std::string name, Connect connect, bool is_xdp, TargetTimes times);
  void run();
  bool connect();
  Task next_task();
  // One request and its answer. An error has dropped the connection and says so in last_error.
  std::optional<wire::Message> call(wire::Type type, std::span<const std::byte> body, int fd, int timeout_ms);
  void send_bypass();
  void send_publication();
  void ask_stats();
  void ask_telemetry();
  std::optional<TargetTelemetry> receive_telemetry();
  bool refresh(Fresh& fresh, Clock::time_point deadline);
  void ask_status();
  void ask_interfaces();
  void log_changes(const std::vector<wire::InterfaceBody>& before, const std::vector<wire::InterfaceBody>& after) const;
  void take_status(const wire::Message& message);
  void drop(const std::string& error);
  void set_error(const std::string& error);  // mutex_ is held
  void wait_for_event(int timeout_ms);
  void wake() const;

  const std::string socket_;
  const Connect connect_;
  const bool is_xdp_;
  const TargetTimes times_;
  Fd wake_;  // eventfd: something changed, or stop

  mutable std::mutex mutex_;  // guards all below; never held while the socket is used
  mutable std::condition_variable changed_;
  bool stopping_ = false;
  Fd connection_;  // made and closed by the thread; shut down by the destructor
  TargetState state_;
  std::shared_ptr<const Publication> wanted_;
  bool wanted_is_news_ = false;  // wanted_ was not tried on this connection
  std::optional<bool> wanted_bypass_;
  bool bypass_is_news_ = false;  // not tried on this connection
  Fresh stats_, telemetry_;
  Clock::time_point status_due_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace weir::control
