#include "control/connect/flowspec_peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "common/again.h"
#include "common/files.h"
#include "common/log/log.h"
#include "control/ctl/line/out.h"

namespace weir::control::ctl {

namespace {

using flowspec::Family;
using Phase = FlowspecList::Phase;

constexpr std::chrono::seconds kMostPause{60};
constexpr std::chrono::seconds kConnectFor{10};
// Of a peer that says no End-of-RIB: after so long a silence it has said all, and after so long a time anyway.
constexpr std::chrono::seconds kSilence{30}, kFillFor{300};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

SocketAddress socket_address(const ListenAddress& address) {
  SocketAddress made;
  if (address.is_v6) {
    auto* in6 = reinterpret_cast<sockaddr_in6*>(&made.storage);
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(address.port);
    const auto bytes = to_bytes(address.v6);
    memcpy(&in6->sin6_addr, bytes.data(), bytes.size());
    made.bytes = sizeof *in6;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&made.storage);
    in->sin_family = AF_INET;
    in->sin_port = htons(address.port);
    const auto bytes = to_bytes(address.v4);
    memcpy(&in->sin_addr, bytes.data(), bytes.size());
    made.bytes = sizeof *in;
  }
  return made;
}

std::string address_text(const ListenAddress& address) {
  return address.is_v6 ? to_string(address.v6) : to_string(address.v4);
}

// Whose connection it is; an IPv4 address by a socket of IPv6 is one of IPv4.
ListenAddress address_of(const sockaddr_storage& storage) {
  ListenAddress address;
  if (storage.ss_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    address.v6 = ipv6_from_bytes(in6->sin6_addr.s6_addr);
    address.is_v6 = !is_ipv4_mapped(address.v6);
    if (!address.is_v6) address.v4 = static_cast<Ipv4>(address.v6), address.v6 = 0;
  } else {
    const auto* in = reinterpret_cast<const sockaddr_in*>(&storage);
    address.v4 = ntohl(in->sin_addr.s_addr);
  }
  return address;
}

Fd tcp_socket(bool is_v6) {
  return Fd(socket(is_v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

}  // namespace

FlowspecPeer::FlowspecPeer(Settings settings, bool tells_json)
    : settings_(std::move(settings)),
      peer_(address_text(settings_.peer)),
      tells_json_(tells_json),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  signals_.reset(signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC));
}

FlowspecPeer::~FlowspecPeer() = default;

Result<void> FlowspecPeer::open() {
  if (!settings_.listen) return {};
  listening_ = tcp_socket(settings_.listen->is_v6);
  const SocketAddress address = socket_address(*settings_.listen);
  const int on = 1;
  if (listening_) setsockopt(listening_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!listening_ || bind(listening_.get(), address.get(), address.bytes) != 0 || listen(listening_.get(), 8) != 0) {
    return errno_error("cannot listen at " + text_of(*settings_.listen));
  }
  return {};
}

void FlowspecPeer::wake() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
}

void FlowspecPeer::run(FlowspecList& list) {
  list_ = &list;
  if (!listening_) next_try_ = Clock::now();
  while (true) {
    tell();
    pollfd waits[4] = {{signals_.get(), POLLIN, 0},
                       {wake_.get(), POLLIN, 0},
                       {listening_.get(), POLLIN, 0},  // none is -1, which poll(2) passes over
                       {connection_.get(), POLLIN, 0}};
    if (is_connecting_ || (session_ && !session_->output().empty())) waits[3].events |= POLLOUT;
    (void)not_interrupted([&] { return poll(waits, 4, timeout_ms()); });
    if (waits[0].revents != 0) break;
    if (waits[1].revents != 0) {
      uint64_t n = 0;
      (void)!read(wake_.get(), &n, sizeof n);
      if (session_ && session_->is_established()) announced_ = session_->announce(list_->announced());
    }
    if (waits[2].revents != 0) accept();
    if (connection_ && waits[3].revents != 0) {
      if (is_connecting_) {
        int error = 0;
        socklen_t bytes = sizeof error;
        getsockopt(connection_.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
        error == 0 ? begin(std::move(connection_)) : close(strerror(error));
      } else if ((waits[3].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        receive();
      }
    }
    pass_time();
    send();
  }
  if (session_) {
    session_->shut_down("the program ends");
    send();
  }
  list_ = nullptr;
}

int FlowspecPeer::timeout_ms() const {
  Clock::time_point next = Clock::now() + std::chrono::seconds(tells_json_ ? 1 : 60);
  for (const auto& at : {next_try_, filled_by_, stale_at_}) next = std::min(next, at.value_or(next));
  if (session_) next = std::min(next, session_->next_tick());
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void FlowspecPeer::connect() {
  connection_ = tcp_socket(settings_.peer.is_v6);
  const SocketAddress address = socket_address(settings_.peer);
  is_connecting_ = true;
  next_try_ = Clock::now() + kConnectFor;
  if (!connection_ || (::connect(connection_.get(), address.get(), address.bytes) != 0 && errno != EINPROGRESS)) {
    close(strerror(errno));
  }
}

void FlowspecPeer::accept() {
  SocketAddress from;
  from.bytes = sizeof from.storage;
  Fd connection(
      accept4(listening_.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!connection) return;
  const ListenAddress other = address_of(from.storage);
  const bool is_peer =
      other.is_v6 == settings_.peer.is_v6 && other.v4 == settings_.peer.v4 && other.v6 == settings_.peer.v6;
  if (!is_peer) {
    log::warning("flowspec connection refused", {{"from", address_text(other)}, {"reason", "it is not the peer"}});
  } else if (session_) {
    log::warning("flowspec connection refused", {{"from", address_text(other)}, {"reason", "there is one already"}});
  } else {
    begin(std::move(connection));
  }
}

void FlowspecPeer::begin(Fd connection) {
  connection_ = std::move(connection);
  is_connecting_ = false;
  next_try_.reset();
  const int on = 1;
  setsockopt(connection_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  flowspec::SessionEvents& events = *this;
  session_ = std::make_unique<flowspec::Session>(settings_.session, events, Clock::now());
}

void FlowspecPeer::receive() {
  uint8_t bytes[1 << 16];
  const ssize_t got = not_interrupted([&] { return recv(connection_.get(), bytes, sizeof bytes, 0); });
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
  if (got <= 0) return session_->lose(got == 0 ? "the peer closed the connection" : strerror(errno));
  (void)session_->receive({bytes, static_cast<size_t>(got)}, Clock::now());
}

// As much as the connection takes. A session that is over goes with its last words.
void FlowspecPeer::send() {
  if (!session_) return;
  flowspec::Bytes& output = session_->output();
  while (!output.empty()) {
    const ssize_t put =
        send_again([&] { return ::send(connection_.get(), output.data(), output.size(), MSG_NOSIGNAL); });
    if (put <= 0) {
      if (errno != EAGAIN && errno != EWOULDBLOCK) session_->lose(strerror(errno));
      break;
    }
    output.erase(output.begin(), output.begin() + put);
  }
  if (session_->is_over()) close(last_error_);
}

// What was a connection, or was to be one, is gone.
void FlowspecPeer::close(const std::string& why) {
  connection_.reset();
  is_connecting_ = false;
  const bool was_session = session_ != nullptr;
  session_.reset();
  announced_ = 0;
  if (listening_) return;
  if (!was_session && why != last_error_) {
    log::warning("flowspec peer not reached", {{"peer", peer_}, {"error", why}});
    last_error_ = why;
  }
  // One that kept a session for a while is asked again soon.
  if (established_at_ && Clock::now() - *established_at_ > kMostPause) pause_ = std::chrono::seconds(1);
  established_at_.reset();
  next_try_ = Clock::now() + pause_;
  pause_ = std::min(2 * pause_, kMostPause);
}

void FlowspecPeer::pass_time() {
  const Clock::time_point now = Clock::now();
  if (session_) (void)session_->tick(now);
  if (next_try_ && now >= *next_try_) is_connecting_ ? close("no answer") : connect();
  if (filled_by_ && now >= *filled_by_) {
    has_ended_[0] = has_ended_[1] = true;
    is_filled();
  }
  if (stale_at_ && now >= *stale_at_) {
    stale_at_.reset();
    log::notice("flowspec rules went stale", {{"peer", peer_}, {"after_s", settings_.stale_s}});
    list_->change([](flowspec::RuleTable& table) { table.clear(); });
  }
}

void FlowspecPeer::established(const flowspec::Open& peer) {
  established_at_ = Clock::now();
  last_error_.clear();
  stale_at_.reset();
  filled_by_ = Clock::now() + kSilence;
  has_ended_[0] = !session_->carries(Family::v4);
  has_ended_[1] = !session_->carries(Family::v6);
  log::notice("flowspec session begins", {{"peer", peer_},
                                          {"as", peer.as},
                                          {"router_id", to_string(static_cast<Ipv4>(peer.id))},
                                          {"families", !has_ended_[0] && !has_ended_[1] ? "ipv4,ipv6"
                                                       : has_ended_[0]                  ? "ipv6"
                                                                                        : "ipv4"}});
  list_->change([](flowspec::RuleTable& table) { table.begin_anew(); });
  list_->set_phase(Phase::filling);
  announced_ = session_->announce(list_->announced());
}

void FlowspecPeer::updated(const flowspec::Update& update) {
  if (!update.malformed.empty()) {
    log::warning("flowspec update malformed: its rules count as withdrawn",
                 {{"peer", peer_}, {"reason", update.malformed}, {"rules", update.withdrawn.size()}});
  }
  list_->change([&](flowspec::RuleTable& table) {
    for (const flowspec::RuleKey& key : update.withdrawn) table.withdraw(key);
    for (const flowspec::RuleKey& key : update.announced) table.announce(key, update.action);
  });
  if (!filled_by_) return;
  filled_by_ = std::min(Clock::now() + kSilence, *established_at_ + kFillFor);
  for (const Family family : update.ends) has_ended_[family == Family::v4 ? 0 : 1] = true;
  if (has_ended_[0] && has_ended_[1]) is_filled();
}

// All that the peer has to say at first was said.
void FlowspecPeer::is_filled() {
  filled_by_.reset();
  list_->change([](flowspec::RuleTable& table) {
    for (const Family family : {Family::v4, Family::v6}) table.end_of_rib(family);
  });
  list_->set_phase(Phase::whole);
}

void FlowspecPeer::ended(const std::string& why) {
  last_error_ = why;
  const bool was_established = established_at_ && session_->has_been_established();
  log::warning("flowspec session ends", {{"peer", peer_}, {"error", why}});
  filled_by_.reset();
  if (!was_established) return;
  stale_at_ = Clock::now() + std::chrono::seconds(settings_.stale_s);
  list_->set_phase(Phase::ending);
}

// With --json: a line whenever something changed.
void FlowspecPeer::tell() {
  if (!tells_json_) return;
  const bool is_up = session_ && session_->is_established();
  FlowspecStatus status = {peer_,
                           is_up        ? "established"
                           : listening_ ? "waiting"
                                        : "connecting",
                           list_->settings().list, list_->counts(), announced_};
  if (told_ && *told_ == status) return;
  print("{}", write_json(status).line());
  std::fflush(stdout);
  told_ = std::move(status);
}

}  // namespace weir::control::ctl
