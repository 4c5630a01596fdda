#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/clock.h"
#include "control/sources/flowspec/message.h"

namespace weir::control::flowspec {

struct SessionSettings {
  uint32_t as = 0, peer_as = 0;
  uint32_t id = 0;  // BGP identifier
  uint16_t hold_s = 90;
};

// What a session tells of its peer.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  virtual void established(const Open& peer) = 0;
  virtual void updated(const Update& update) = 0;
  // Its rules go (after a while, as it is decided elsewhere).
  virtual void ended(const std::string& why) = 0;
};

// One session with one peer over one connection, which somebody else has: bytes in, bytes out, no clock of its own
// (RFC 4271, section 8, from the moment on at which there is a connection).
class Session {
 public:
  Session(const SessionSettings& settings, SessionEvents& events, Clock::time_point now);

  // What came. False: the session is over; what is to be sent still (NOTIFICATION) is in output().
  bool receive(BytesView bytes, Clock::time_point now);
  // Keeps the peer's hold timer from running out, and looks at ours. False: it is over.
  bool tick(Clock::time_point now);
  // Ends it.
  void shut_down(const std::string& why);
  // The connection is gone.
  void lose(const std::string& why);

  // What is to be sent; the caller takes out what he has sent.
  Bytes& output() { return output_; }
  bool is_established() const { return state_ == State::established; }
  bool has_been_established() const { return was_established_; }
  bool is_over() const { return state_ == State::over; }
  bool carries(Family family) const;
  // Until it is over.
  Clock::time_point next_tick() const;

  // Announces these and withdraws all that was announced before and is not among them. Does nothing before the session
  // is established; families that the peer does not carry are left out. Returns how many are announced now.
  size_t announce(const std::set<RuleKey>& rules);

 private:
  enum class State : uint8_t { open_sent, open_confirm, established, over };

  bool take(const Message& message, Clock::time_point now);
  bool take_open(BytesView body, Clock::time_point now);
  bool take_update(BytesView body);
  bool end(const Fault& fault);  // says it to the peer
  void be_over(const std::string& why);
  void send(const Bytes& message);

  const SessionSettings settings_;
  SessionEvents& events_;
  State state_ = State::open_sent;
  Open peer_;
  Bytes input_, output_;
  std::chrono::seconds hold_{0};  // 0: neither side has a timer
  Clock::time_point heard_, said_;
  std::set<RuleKey> announced_;
  bool was_established_ = false, has_ended_rib_ = false;
};

}  // namespace weir::control::flowspec
