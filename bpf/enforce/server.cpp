#include "bpf/enforce/server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "common/files.h"
#include "common/telemetry.h"

namespace weir::xdp {

namespace {

template <class Body>
std::vector<std::byte> encoded(const Body& body) {
  const std::span<const std::byte> bytes = wire::bytes_of(body);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> text(std::string_view reason) {
  wire::TextBody body;
  wire::set_text(body.text, reason);
  return encoded(body);
}

std::vector<std::byte> encode_stats(wire::Stats stats) {
  stats.body.n_lists = static_cast<uint32_t>(stats.lists.size());
  const std::span<const std::byte> lists = std::as_bytes(std::span(stats.lists));
  std::vector<std::byte> bytes(sizeof stats.body + lists.size());
  memcpy(bytes.data(), &stats.body, sizeof stats.body);
  if (!lists.empty()) memcpy(bytes.data() + sizeof stats.body, lists.data(), lists.size());
  return bytes;
}

wire::InterfaceBody body_of(const InterfaceState& state) {
  wire::InterfaceBody body;
  wire::set_text(body.name, state.name);
  body.index = state.index;
  body.attached = state.attached ? 1 : 0;
  body.native = state.attached && state.native ? 1 : 0;
  wire::set_text(body.error, state.error);
  return body;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Server::Server(std::unique_ptr<Enforcer> enforcer, std::string bpf_dir, std::chrono::milliseconds tend)
    : enforcer_(std::move(enforcer)),
      bpf_dir_(std::move(bpf_dir)),
      tend_(tend),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

Result<Fd> Server::connect() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return errno_error("cannot make a socket pair");
  Fd theirs(ends[0]), ours(ends[1]);
  // A client that does not read must not hold the thread.
  if (fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return errno_error("cannot set up a socket pair");
  {
    std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(ours));
  }
  eventfd_write(wake_.get(), 1);
  return theirs;
}

void Server::run() {
  Clock::time_point due = Clock::now() + tend_;
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      std::move(arrived_.begin(), arrived_.end(), std::back_inserter(clients_));
      arrived_.clear();
    }
    std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}};
    for (const Fd& client : clients_) ready.push_back({client.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now());
    poll(ready.data(), ready.size(), std::max(0, static_cast<int>(left.count())));
    eventfd_t count = 0;
    eventfd_read(wake_.get(), &count);
    for (size_t i = 0; i < clients_.size(); i++) {
      if (ready[i + 1].revents != 0 && !serve(clients_[i].get())) clients_[i].reset();
    }
    std::erase_if(clients_, [](const Fd& client) { return !client; });
    if (Clock::now() < due) continue;
    enforcer_->tend();
    due = Clock::now() + tend_;
  }
}

bool Server::serve(int client) {
  const Result<wire::Message> request = wire::receive(client);
  if (!request) {  // also an orderly end: then nobody reads the refusal
    (void)wire::send(client, wire::Type::refused, 0, text(request.error()));
    return false;
  }
  const Answer told = answer(*request);
  return static_cast<bool>(wire::send(client, told.type, request->header.sequence, told.body));
}

Server::Answer Server::answer(const wire::Message& request) {
  const auto type = static_cast<wire::Type>(request.header.type);
  switch (type) {
    case wire::Type::status:
      return {type, encoded(enforcer_->status())};
    case wire::Type::publish:
      if (!wire::body_as<wire::PublishBody>(request)) break;
      return {type, encoded(enforcer_->publish(request))};
    case wire::Type::stats:
      return {type, encode_stats(enforcer_->stats())};
    case wire::Type::bypass: {
      const std::optional<wire::BypassBody> body = wire::body_as<wire::BypassBody>(request);
      if (!body) break;
      enforcer_->bypass(body->on != 0);
      return {type, encoded(enforcer_->status())};
    }
    case wire::Type::ports:
      return {type, wire::encode_ports(enforcer_->ports())};
    case wire::Type::interfaces:
      return {type, wire::encode_interfaces(interfaces())};
    case wire::Type::detach:
      return detach(request);
    case wire::Type::telemetry:
      return {wire::Type::refused, text("XDP has no workers to tell of: the kernel runs it where packets come in")};
    case wire::Type::samples:
      return {wire::Type::refused, text("XDP gives no samples of what it drops")};
    case wire::Type::refused:
      return {wire::Type::refused, text("a refusal is no request")};
  }
  return {wire::Type::refused, text("the request's body has a wrong size")};
}

// The maps stay pinned: the enforcer goes on with them.
Server::Answer Server::detach(const wire::Message& request) {
  const std::optional<wire::DetachBody> body = wire::body_as<wire::DetachBody>(request);
  if (!body) return {wire::Type::refused, text("the request's body has a wrong size")};
  const std::string wanted = wire::get_text(body->interface);
  std::vector<wire::InterfaceBody> off;
  bool known = false;
  const std::vector<InterfaceState> states = enforcer_->interfaces();  // a copy: detach() changes them
  for (const InterfaceState& state : states) {
    if (!wanted.empty() && state.name != wanted) continue;
    known = true;
    const Result<void> done = enforcer_->detach(state.name);
    if (!done) return {wire::Type::refused, text(done.error())};
    if (!contains(detached_, state.name)) detached_.push_back(state.name);
    InterfaceState now = state;
    now.attached = false;
    if (state.attached) off.push_back(body_of(now));
  }
  std::vector<std::string> others;  // pinned by one before, and named by nobody now
  if (wanted.empty()) {
    if (Result<std::vector<std::string>> pinned = pinned_interfaces(bpf_dir_); pinned) others = std::move(*pinned);
  } else if (!known) {
    others.push_back(wanted);
  }
  for (const std::string& name : others) {
    const Result<std::vector<std::string>> done = detach_pinned(bpf_dir_, name);
    if (!done) return {wire::Type::refused, text(done.error())};
    off.push_back(body_of({name, 0, false, false, ""}));
  }
  return {wire::Type::detach, wire::encode_interfaces(off)};
}

std::vector<wire::InterfaceBody> Server::interfaces() const {
  std::vector<wire::InterfaceBody> bodies;
  for (const InterfaceState& state : enforcer_->interfaces()) {
    wire::InterfaceBody body = body_of(state);
    if (!state.attached && contains(detached_, state.name)) {
      wire::set_text(body.error, "detached on demand, until the next reload or start of controld");
    }
    bodies.push_back(body);
  }
  return bodies;
}

}  // namespace weir::xdp
