#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/probes.h"
#include "common/shadow.h"
#include "common/telemetry.h"
#include "common/wire.h"
#include "control/base/loop/loop.h"
#include "control/enforce/publish/store.h"
#include "control/policy/model/target.h"

namespace weir::control {

// Patience, in milliseconds. Tests shorten it.
struct TargetTimes {
  int retry = 200;       // between attempts to reach a target that is away
  int refresh = 1000;    // between looks at a target that is there
  int answer = 2000;     // for status, stats and bypass: a target that is silent for longer is dropped and reached anew
  int publish = 60'000;  // for a publication: copying and syncing the largest snapshot to a slow disk
  int try_again = 2000;  // after a refusal that need not last: no memory, no descriptor
  int switched = 1000;   // for all that an order of the panic switch waits for: targets, and the own disk
};

// What a data plane measures of itself.
struct TargetTelemetry {
  std::vector<wire::Telemetry> workers;
  wire::Ports ports;
};

// What judges packets beside what is enforced, and of how many of them.
struct ShadowCandidate {
  std::shared_ptr<const Publication> publication;  // a whole snapshot
  uint32_t one_in = 1;
};

// What is known of one enforcer.
struct TargetState {
  std::string socket;           // or what else names it
  bool has_interfaces = false;  // as its kind
  bool connected = false;
  bool is_tried = false;                                       // it was reached, or could not be: known at least once
  std::optional<wire::StatusBody> status;                      // as last told; empty: never reached
  std::optional<wire::Stats> stats;                            // as last told
  std::optional<TargetTelemetry> telemetry;                    // as last told
  std::optional<std::vector<wire::InterfaceBody>> interfaces;  // as last told
  wire::Generation acknowledged;                               // newest of ours that it enforces and has on disk
  std::optional<wire::PublishedBody> answer;                   // to the last publication
  Clock::time_point acknowledged_at;
  bool publishing = false;             // a publication is on its way
  std::optional<wire::Shadow> shadow;  // of the candidate, or the last one, as last told
  std::string shadow_error;            // why it does not judge by the candidate
  bool is_durable() const { return !status || (status->snapshot_durable != 0 && status->bypass_durable != 0); }
  std::string last_error;  // why it is away, or did not take the last publication; empty = well
};

// One enforcer: owns the connection, reaches the target again when it went away, and brings it what it should have. A
// state machine on the loop: at most one publication and one other request are on their way, and nothing here ever
// waits.
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
    // Its switch is not as it said before, and not by an order of ours. May be empty.
    std::function<void()> bypass_changed = {};
    // It refused what it was given, because it enforces this generation of our epoch: one that we gave out and then
    // could not remember. May be empty.
    std::function<void(wire::Generation)> is_ahead = {};
    // What a shadow counted, and new samples, were told. May be empty.
    std::function<void(const wire::Shadow&)> shadow_told = {};
    // What it asked of its filters, told just now. May be empty.
    std::function<void(const wire::Probes&)> probed = {};
    // It went away, or cannot be reached: why. May be empty.
    std::function<void(const std::string& error)> lost = {};
    // About how many samples of its traffic it should give a second, and what it gave. Both may be empty.
    std::function<uint32_t()> traffic_per_second = {};
    std::function<void(const wire::Traffic&)> traffic = {};
  };
  TargetLink(Loop& loop, TargetSpec spec, Surroundings surroundings, TargetTimes times = {});
  TargetLink(const TargetLink&) = delete;

  // From now on the target should enforce this one. Sent when the target does not have it already. allow_older: also
  // when it enforces something newer.
  void publish(std::shared_ptr<const Publication> publication, bool allow_older = false);
  // It enforces this generation of ours, or a newer one.
  bool has(wire::Generation generation) const {
    return state_.acknowledged.epoch == generation.epoch && state_.acknowledged.number >= generation.number;
  }
  // The same, or it will not: it refused it.
  bool is_settled(wire::Generation generation) const;
  // When it went away, or the first attempt to reach it began; none: it is there, or nobody knows yet.
  std::optional<Clock::time_point> away_since() const {
    return state_.connected || !state_.is_tried ? std::nullopt : std::optional(away_since_);
  }

  // From now on the target should judge by this candidate, too; null: by none. It begins anew when the target does.
  void shadow(std::shared_ptr<const ShadowCandidate> candidate);
  // It does, or has said why it will not.
  bool is_shadow_settled() const;
  bool judges_by_shadow() const;
  uint64_t ask_shadow() { return ask_anew(shadow_); }
  bool has_shadow(uint64_t ticket) const { return shadow_.answered >= ticket; }

  // Lets the target go, for good: what waits for it is told so by changed().
  void stop();

  // Ask for a fresh status, or fresh counters; has_...() is true once they are in state(), or when the target went
  // away.
  uint64_t ask_status_anew() { return ask_anew(status_); }
  uint64_t ask_stats() { return ask_anew(stats_); }
  uint64_t ask_telemetry() { return ask_anew(telemetry_); }
  bool has_status(uint64_t ticket) const { return status_.answered >= ticket; }
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
    Loop::Source timeout;
  };
  // Answers that are asked for anew each time.
  struct Fresh {
    uint64_t asked = 0, answered = 0;
    bool wanted() const { return answered < asked; }
  };

  void reach();
  void take_connection(Result<Fd> connection);
  void next();
  void ask(wire::Type type, std::span<const std::byte> body, Take take);
  struct Descriptors {  // that go with a message; -1: none
    int snapshot = -1, base = -1;
  };
  std::optional<Asked> send(wire::Type type, std::span<const std::byte> body, Descriptors with, int timeout_ms,
                            Take take);
  void receive();
  uint64_t ask_anew(Fresh& fresh);
  void send_publication();
  void take_answer(const Publication& publication, const wire::Message& message);
  void take_refusal(const Publication& publication, const wire::PublishedBody& answer);
  void ask_for_stats();
  void ask_for_telemetry();
  void ask_for_probes();
  void ask_for_worker(std::shared_ptr<TargetTelemetry> so_far, uint64_t ticket);
  bool is_traffic_wanted();
  void ask_for_traffic();
  bool is_shadow_due() const;
  void send_shadow();
  void ask_for_shadow();
  void take_shadow(const wire::Message& message, const std::shared_ptr<const ShadowCandidate>& asked_for);
  void ask_status();
  void ask_interfaces();
  void log_changes(const std::vector<wire::InterfaceBody>& before, const std::vector<wire::InterfaceBody>& after) const;
  void take_status(const wire::Message& message);
  void drop(const std::string& error);
  void set_error(const char* event, const std::string& error);
  void tell_change();

  Loop& loop_;
  const TargetSpec spec_;
  const TargetTraits& traits_;
  const Surroundings surroundings_;
  const TargetTimes times_;
  const Mailbox mailbox_;

  Fd connection_;
  uint64_t connections_ = 0;  // so far: tells callbacks of an old one
  Loop::Source readable_, wake_, again_, shadow_again_;
  std::optional<Asked> asked_, asked_to_enforce_;
  bool greeting_ = false;
  bool bypass_is_older_ = false, generation_is_older_ = false;  // in the status that is on its way
  bool stopped_ = false;
  TargetState state_;
  std::shared_ptr<const Publication> wanted_;
  bool allow_older_ = false;
  bool wanted_is_news_ = false;  // wanted_ was not tried on this connection
  bool needs_base_ = false;      // it refused an overlay for want of its base
  Fresh status_, stats_, telemetry_, shadow_;
  std::shared_ptr<const ShadowCandidate> candidate_;
  bool shadow_refused_ = false;    // candidate_, on this connection
  bool shadow_is_older_ = false;   // in the status that is on its way
  Clock::time_point shadow_due_;   // to ask what it counted
  uint64_t asked_for_status_ = 0;  // the newest ticket of status_ when the status that is on its way was asked for
  Clock::time_point status_due_, probes_due_;
  bool is_traffic_due_ = false;
  bool gives_traffic_ = false;  // it was asked to
  Clock::time_point connected_at_, away_since_ = Clock::now();
  int pause_ms_ = 0;  // before the next attempt to reach a target that was there
};

}  // namespace weir::control
