#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/telemetry.h"
#include "common/wire.h"
#include "control/loop/loop.h"
#include "control/model/target.h"
#include "control/publish/store.h"

namespace weir::control {

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
  std::string socket;           // or what else names it
  bool has_interfaces = false;  // as its kind
  bool connected = false;
  std::optional<wire::StatusBody> status;                      // as last told; empty: never reached
  std::optional<wire::Stats> stats;                            // as last told
  std::optional<TargetTelemetry> telemetry;                    // as last told
  std::optional<std::vector<wire::InterfaceBody>> interfaces;  // as last told
  wire::Generation acknowledged;                               // newest of ours that it enforces and has on disk
  std::optional<wire::PublishedBody> answer;                   // to the last publication
  Clock::time_point acknowledged_at;
  bool publishing = false;  // a publication is on its way
  std::string last_error;   // why it is away, or did not take the last publication; empty = well
};

// One enforcer: owns the connection, reaches the target again when it went away, and brings it what it should have. A
// state machine on the loop: at most one request is on its way, and nothing here ever waits.
class TargetLink {
 public:
  using Done = std::function<void()>;
  struct Surroundings {
    // Makes a connection. Calls back on the loop, at once or later.
    std::function<void(std::function<void(Result<Fd>)>)> connect;
    // What a target must hear on a new connection before anything is published to it; calls back on the loop, whether
    // it did or not. bypass: what it said of itself. May be empty.
    std::function<void(bool bypass, Done)> greet;
    // Something of state() changed. May be empty.
    std::function<void()> changed;
  };
  TargetLink(Loop& loop, TargetSpec spec, Surroundings surroundings, TargetTimes times = {});
  TargetLink(const TargetLink&) = delete;

  // From now on the target should enforce this one. Sent when the target does not have it already.
  void publish(std::shared_ptr<const Publication> publication);
  // It enforces this generation, or will not: it refused it.
  bool is_settled(wire::Generation generation) const;

  // Lets the target go, for good: what waits for it is told so by changed().
  void stop();

  // Ask for fresh counters; is_told() is true once they are in state(), or when the target went away.
  uint64_t ask_stats() { return ask_anew(stats_); }
  uint64_t ask_telemetry() { return ask_anew(telemetry_); }
  bool has_stats(uint64_t ticket) const { return stats_.answered >= ticket; }
  bool has_telemetry(uint64_t ticket) const { return telemetry_.answered >= ticket; }
  // The panic switch told it so, and it confirmed.
  void take_bypass(bool on);

  const TargetState& state() const { return state_; }
  const TargetSpec& spec() const { return spec_; }
  const std::string& name() const { return spec_.name; }

 private:
  using Take = std::function<void(const wire::Message&)>;
  struct Asked {  // a request that is on its way
    wire::Type type;
    uint32_t sequence;
    Take take;
  };
  // Answers that are asked for anew each time.
  struct Fresh {
    uint64_t asked = 0, answered = 0;
    bool wanted() const { return answered < asked; }
  };

  void reach();
  void take_connection(Result<Fd> connection);
  void next();
  void ask(wire::Type type, std::span<const std::byte> body, int fd, int timeout_ms, Take take);
  void receive();
  uint64_t ask_anew(Fresh& fresh);
  void send_publication();
  void take_answer(const Publication& publication, const wire::Message& message);
  void ask_for_stats();
  void ask_for_telemetry();
  void ask_for_worker(std::shared_ptr<TargetTelemetry> so_far, uint64_t ticket);
  void ask_status();
  void ask_interfaces();
  void log_changes(const std::vector<wire::InterfaceBody>& before, const std::vector<wire::InterfaceBody>& after) const;
  void take_status(const wire::Message& message);
  void drop(const std::string& error);
  void set_error(const std::string& error);
  void tell_change();

  Loop& loop_;
  const TargetSpec spec_;
  const TargetTraits& traits_;
  const Surroundings surroundings_;
  const TargetTimes times_;
  const Mailbox mailbox_;

  Fd connection_;
  uint64_t connections_ = 0;  // so far: tells callbacks of an old one
  Loop::Source readable_, timeout_, wake_;
  std::optional<Asked> asked_;
  bool greeting_ = false;
  bool bypass_is_older_ = false;  // in the status that is on its way
  bool stopped_ = false;
  TargetState state_;
  std::shared_ptr<const Publication> wanted_;
  bool wanted_is_news_ = false;  // wanted_ was not tried on this connection
  Fresh stats_, telemetry_;
  Clock::time_point status_due_;
};

}  // namespace weir::control
