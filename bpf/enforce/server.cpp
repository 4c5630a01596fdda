#include "bpf/enforce/server.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/files.h"
#include "common/telemetry.h"
#include "common/thread.h"

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
  body.times = state.times;
  wire::set_text(body.error, state.error);
  if (state.attached && state.now != state.name) wire::set_text(body.now, state.now);
  return body;
}

// Of a request that begins a shadow, or ends it.
std::optional<wire::ShadowRequest> shadow_change(const wire::Message& request) {
  if (request.header.type != static_cast<uint16_t>(wire::Type::shadow)) return std::nullopt;
  const auto wanted = wire::body_as<wire::ShadowRequest>(request);
  const bool is_change =
      wanted && (wanted->action == wire::ShadowAction::begin || wanted->action == wire::ShadowAction::end);
  return is_change ? wanted : std::nullopt;
}

constexpr std::chrono::milliseconds kLook{50};  // for links that are gone: the kernel does not tell of all of them
constexpr size_t kMaxWaiting = 4;               // publications

// What the kernel tells of interfaces (rtnetlink(7)). Empty: it is looked for only now and then.
Fd listen_for_changes() {
  Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK;
  if (fd && bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

// True: there was something. Each message is taken for any change.
bool drain(const Fd& changes) {
  char chunk[8192];
  bool any = false;
  while (true) {
    const ssize_t got = recv(changes.get(), chunk, sizeof chunk, 0);
    if (got < 0 && errno != ENOBUFS && errno != EINTR) return any;  // ENOBUFS: some were lost
    any = true;
  }
}

}  // namespace

Server::Server(std::unique_ptr<Enforcer> enforcer, std::string bpf_dir, std::chrono::milliseconds tend)
    : enforcer_(std::move(enforcer)),
      bpf_dir_(std::move(bpf_dir)),
      tend_(tend),
      attaches_(enforcer_ != nullptr && !enforcer_->interfaces().empty()),
      changes_(listen_for_changes()),
      wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  Result<std::thread> publisher = start_thread([this] { run_publications(); });
  if (publisher) publisher_ = std::move(*publisher);
  Result<std::thread> thread = publisher ? start_thread([this] { run(); }) : Error{publisher.error()};
  if (thread) thread_ = std::move(*thread);
  failure_ = thread ? "" : thread.error();
}

Server::~Server() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  published_.notify_all();
  eventfd_write(wake_.get(), 1);
  for (std::thread* thread : {&thread_, &publisher_}) {
    if (thread->joinable()) thread->join();
  }
}

void Server::tend() {
  {
    std::lock_guard lock(mutex_);
    is_tending_ = true;
  }
  eventfd_write(wake_.get(), 1);
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
    bool is_called = false;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      for (Fd& fd : std::exchange(arrived_, {})) clients_.push_back({std::move(fd), next_id_++});
      is_called = std::exchange(is_tending_, false);
    }
    deliver();
    if (is_called || wait_for_something(due) || Clock::now() >= due || (enforcer_ && enforcer_->is_disturbed())) {
      enforcer_->tend();
      due = Clock::now() + tend_;
    }
  }
}

// Serves whoever is ready. True: interfaces changed.
bool Server::wait_for_something(Clock::time_point due) {
  std::vector<pollfd> ready = {{wake_.get(), POLLIN, 0}, {changes_.get(), POLLIN, 0}};
  const size_t others = ready.size();
  for (const Client& client : clients_) ready.push_back({client.fd.get(), POLLIN, 0});
  const auto left = std::min(kLook, std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now()));
  poll(ready.data(), ready.size(), std::max(0, static_cast<int>(left.count())));
  eventfd_t count = 0;
  eventfd_read(wake_.get(), &count);
  for (size_t i = 0; i < clients_.size(); i++) {
    if (ready[i + others].revents != 0 && !serve(clients_[i])) clients_[i].fd.reset();
  }
  std::erase_if(clients_, [](const Client& client) { return !client.fd; });
  return ready[1].revents != 0 && drain(changes_);
}

bool Server::serve(const Client& client) {
  Result<wire::Message> request = wire::receive(client.fd.get());
  if (!request) {  // also an orderly end: then nobody reads the refusal
    (void)wire::send(client.fd.get(), wire::Type::refused, 0, text(request.error()));
    return false;
  }
  if (take_publication(client, *request)) return true;
  const Answer told = answer(*request);
  return static_cast<bool>(wire::send(client.fd.get(), told.type, request->header.sequence, told.body));
}

// The publisher's work. False: it is another request, or too many wait.
bool Server::take_publication(const Client& client, wire::Message& request) {
  const std::optional<wire::ShadowRequest> shadow = shadow_change(request);
  if (request.header.type != static_cast<uint16_t>(wire::Type::publish) && !shadow) return false;
  {
    std::lock_guard lock(mutex_);
    if (publications_.size() >= kMaxWaiting) return false;
    publications_.push_back({client.id, std::move(request)});
  }
  published_.notify_all();
  return true;
}

void Server::run_publications() {
  std::unique_lock lock(mutex_);
  while (true) {
    published_.wait(lock, [this] { return stopping_ || !publications_.empty(); });
    if (stopping_) return;
    const Publication one = std::move(publications_.front());
    publications_.pop_front();
    lock.unlock();
    Answer answer{wire::Type::refused, text("the request's body has a wrong size")};
    if (const auto shadow = shadow_change(one.message)) {
      answer = change_shadow(one.message, *shadow);
    } else if (wire::body_as<wire::PublishBody>(one.message)) {
      answer = {wire::Type::publish, encoded(enforcer_->publish(one.message))};
    }
    lock.lock();
    told_.push_back({one.client, one.message.header.sequence, std::move(answer)});
    eventfd_write(wake_.get(), 1);
  }
}

// Only a program that this target attaches can be replaced by one that hands frames to a candidate.
Server::Answer Server::change_shadow(const wire::Message& message, const wire::ShadowRequest& request) {
  if (request.action != wire::ShadowAction::begin || attaches_) return shadow_answer(enforcer_->shadow(message));
  Result<wire::Shadow> told = enforcer_->shadow();
  if (told) {
    told->body.ok = 0;
    told->body.failed_step = wire::Step::check;
    wire::set_text(
        told->body.reason,
        "this target attaches to no interface: a program that somebody else attaches judges by no candidate");
  }
  return shadow_answer(told);
}

Server::Answer Server::shadow_answer(const Result<wire::Shadow>& told) {
  if (!told) return {wire::Type::refused, text(told.error())};
  return {wire::Type::shadow, wire::encode_shadow(*told)};
}

void Server::deliver() {
  std::vector<Told> told;
  {
    std::lock_guard lock(mutex_);
    told.swap(told_);
  }
  for (const Told& one : told) {
    const auto client =
        std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) { return c.id == one.client; });
    if (client == clients_.end()) continue;
    if (!wire::send(client->fd.get(), one.answer.type, one.sequence, one.answer.body)) clients_.erase(client);
  }
}

Server::Answer Server::answer(const wire::Message& request) {
  const auto type = static_cast<wire::Type>(request.header.type);
  switch (type) {
    case wire::Type::status:
      return {type, encoded(enforcer_->status())};
    case wire::Type::publish:
      return {wire::Type::refused, text("others wait to be published already")};
    case wire::Type::stats: {
      Result<wire::Stats> stats = enforcer_->stats();
      if (!stats) return {wire::Type::refused, text(stats.error())};
      return {type, encode_stats(std::move(*stats))};
    }
    case wire::Type::bypass: {
      const std::optional<wire::BypassBody> body = wire::body_as<wire::BypassBody>(request);
      if (!body) break;
      enforcer_->bypass(body->on != 0);
      return {type, encoded(enforcer_->status())};
    }
    case wire::Type::ports:
      return {type, wire::encode_ports(enforcer_->ports())};
    case wire::Type::probes: {
      const Result<wire::Probes> probes = enforcer_->probes();
      if (!probes) return {wire::Type::refused, text(probes.error())};
      return {type, wire::encode_probes(*probes)};
    }
    case wire::Type::interfaces:
      enforcer_->tend();  // what was unplugged or detached a moment ago is told as it is
      return {type, wire::encode_interfaces(interfaces())};
    case wire::Type::detach:
      return detach(request);
    case wire::Type::telemetry:
      return {wire::Type::refused, text("XDP has no workers to tell of: the kernel runs it where packets come in")};
    case wire::Type::samples: {
      const std::optional<wire::SamplingBody> wanted = wire::body_as<wire::SamplingBody>(request);
      if (!wanted || wanted->snap_bytes > wire::kMaxSnapBytes) break;
      Result<std::vector<std::byte>> samples = enforcer_->samples(*wanted);
      if (!samples) return {wire::Type::refused, text(samples.error())};
      return {type, std::move(*samples)};
    }
    case wire::Type::traffic: {
      const std::optional<wire::TrafficRequest> wanted = wire::body_as<wire::TrafficRequest>(request);
      if (!wanted) break;
      Result<std::vector<std::byte>> traffic = enforcer_->traffic(*wanted);
      if (!traffic) return {wire::Type::refused, text(traffic.error())};
      return {type, std::move(*traffic)};
    }
    case wire::Type::shadow: {
      const std::optional<wire::ShadowRequest> wanted = wire::body_as<wire::ShadowRequest>(request);
      if (!wanted || wanted->action > wire::ShadowAction::end) break;
      if (wanted->action != wire::ShadowAction::ask) {
        return {wire::Type::refused, text("others wait to be published already")};
      }
      return shadow_answer(enforcer_->shadow());
    }
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
    const Result<std::vector<std::string>> done = detach_on_demand(bpf_dir_, name, Maps::stay);
    if (!done) return {wire::Type::refused, text(done.error())};
    InterfaceState former;
    former.name = name;
    off.push_back(body_of(former));
  }
  return {wire::Type::detach, wire::encode_interfaces(off)};
}

std::vector<wire::InterfaceBody> Server::interfaces() const {
  std::vector<wire::InterfaceBody> bodies;
  for (const InterfaceState& state : enforcer_->interfaces()) bodies.push_back(body_of(state));
  return bodies;
}

}  // namespace weir::xdp
