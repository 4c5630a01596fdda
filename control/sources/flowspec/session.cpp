#include "control/sources/flowspec/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::control::flowspec {
namespace {

constexpr std::chrono::seconds kFirstHold{240};  // until both have said how long (RFC 4271, section 8.2.2)

}  // namespace

Session::Session(const SessionSettings& settings, SessionEvents& events, Clock::time_point now)
    : settings_(settings), events_(events), hold_(kFirstHold), heard_(now), said_(now) {
  send(encode_open({settings_.as, settings_.hold_s, settings_.id, true, true, true}));
}

void Session::send(const Bytes& message) {
  output_.insert(output_.end(), message.begin(), message.end());
}

bool Session::receive(BytesView bytes, Clock::time_point now) {
  if (state_ == State::over) return false;
  input_.insert(input_.end(), bytes.begin(), bytes.end());
  size_t used = 0;
  bool goes_on = true;
  while (goes_on) {
    const Framed framed = frame(BytesView(input_).subspan(used));
    if (framed.fault) return end(*framed.fault);
    if (!framed.message) break;
    goes_on = take(*framed.message, now);
    used += framed.bytes;
  }
  input_.erase(input_.begin(), input_.begin() + static_cast<ptrdiff_t>(used));
  return goes_on;
}

bool Session::take(const Message& message, Clock::time_point now) {
  heard_ = now;
  switch (message.type) {
    case MessageType::notification: {
      be_over("the peer says: " + parse_notification(message.body).what);
      return false;
    }
    case MessageType::open:
      if (state_ == State::open_sent) return take_open(message.body, now);
      break;
    case MessageType::keepalive:
      if (state_ == State::established) return true;
      if (state_ != State::open_confirm) break;
      state_ = State::established;
      was_established_ = true;
      events_.established(peer_);
      return state_ == State::established;
    case MessageType::update:
      if (state_ == State::established) return take_update(message.body);
      break;
    case MessageType::route_refresh:
      if (state_ == State::established) return true;  // was not agreed on
      break;
  }
  return end(
      {kStateError, 0, fmt::format("a message of type {} comes at the wrong time", static_cast<int>(message.type))});
}

bool Session::take_open(BytesView body, Clock::time_point now) {
  const ParsedOpen parsed = parse_open(body);
  if (parsed.fault) return end(*parsed.fault);
  peer_ = parsed.open;
  if (peer_.as != settings_.peer_as) {
    return end({kOpenError, 2, fmt::format("the peer is AS {}, and should be AS {}", peer_.as, settings_.peer_as)});
  }
  if (peer_.id == settings_.id && peer_.as == settings_.as) {
    return end({kOpenError, 3, "the peer has the same router id: give one of both another"});
  }
  if (!peer_.has_flowspec_v4 && !peer_.has_flowspec_v6) {
    Bytes wanted = {1, 4, 0, 1, 0, kFlowSpecSafi};  // the capability, as it was sent
    return end({kOpenError, 7, "the peer carries no FlowSpec: turn on ipv4-flowspec or ipv6-flowspec there", wanted});
  }
  hold_ = std::chrono::seconds(std::min(peer_.hold_s, settings_.hold_s));
  state_ = State::open_confirm;
  send(encode_message(MessageType::keepalive, {}));
  said_ = now;
  return true;
}

bool Session::take_update(BytesView body) {
  ParsedUpdate parsed = parse_update(body, peer_.has_as4);
  if (parsed.fault) return end(*parsed.fault);
  Update& update = parsed.update;
  // What comes back to us is not the peer's (RFC 4271, section 9; RFC 4456, section 8).
  const bool is_ours = std::find(update.as_path.begin(), update.as_path.end(), settings_.as) != update.as_path.end() ||
                       update.originator == settings_.id;
  if (is_ours) update.announced.clear();
  if (!update.malformed.empty()) {
    update.withdrawn.insert(update.withdrawn.end(), update.announced.begin(), update.announced.end());
    update.announced.clear();
  }
  events_.updated(update);
  return state_ == State::established;
}

bool Session::tick(Clock::time_point now) {
  if (state_ == State::over) return false;
  if (hold_.count() == 0) return true;
  if (now - heard_ >= hold_) {
    return end({kHoldTimerExpired, 0, fmt::format("nothing was heard of the peer for {} s", hold_.count())});
  }
  if (state_ != State::open_sent && now - said_ >= hold_ / 3) {
    send(encode_message(MessageType::keepalive, {}));
    said_ = now;
  }
  return true;
}

Clock::time_point Session::next_tick() const {
  if (hold_.count() == 0) return Clock::time_point::max();
  return state_ == State::open_sent ? heard_ + hold_ : std::min(heard_ + hold_, said_ + hold_ / 3);
}

bool Session::end(const Fault& fault) {
  send(encode_notification(fault));
  be_over(fault.what);
  return false;
}

void Session::shut_down(const std::string& why) {
  if (state_ == State::over) return;
  (void)end({kCease, 2, why, {0}});  // administrative shutdown, without a text (RFC 9003)
}

void Session::lose(const std::string& why) {
  if (state_ != State::over) be_over(why);
}

void Session::be_over(const std::string& why) {
  state_ = State::over;
  events_.ended(why);
}

bool Session::carries(Family family) const {
  return family == Family::v4 ? peer_.has_flowspec_v4 : peer_.has_flowspec_v6;
}

size_t Session::announce(const std::set<RuleKey>& rules) {
  if (!is_established()) return 0;
  const Origin origin = {settings_.as == settings_.peer_as, settings_.as, peer_.has_as4};
  for (const Family family : {Family::v4, Family::v6}) {
    if (!carries(family)) continue;
    std::vector<RuleKey> added, gone;
    for (const RuleKey& key : rules) {
      if (key.family == family && announced_.insert(key).second) added.push_back(key);
    }
    for (auto key = announced_.begin(); key != announced_.end();) {
      if (key->family != family || rules.count(*key) != 0) {
        ++key;
        continue;
      }
      gone.push_back(*key);
      key = announced_.erase(key);
    }
    for (const Bytes& message : encode_withdrawals(family, gone)) send(message);
    for (const Bytes& message : encode_announcements(family, added, origin)) send(message);
    if (!has_ended_rib_) send(encode_end_of_rib(family));
  }
  has_ended_rib_ = true;
  return announced_.size();
}

}  // namespace weir::control::flowspec
