#include "control/publish/targets/xdp_plane.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "common/unix_socket.h"

namespace weir::control {

namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

xdp::Attach attach_of(Attach attach) {
  switch (attach) {
    case Attach::any:
      return xdp::Attach::any;
    case Attach::native:
      return xdp::Attach::native;
    case Attach::generic:
      break;
  }
  return xdp::Attach::generic;
}

}  // namespace

XdpPlane::XdpPlane(Loop& loop, std::string bpf_dir) : bpf_dir_(std::move(bpf_dir)), mailbox_(loop) {}

template <class Answer>
void XdpPlane::let_worker(std::function<Answer()> work, std::function<void(Answer)> done) {
  worker_.submit([this, work = std::move(work), done = std::move(done)] {
    // Shared, because a job must be copyable and an answer may own a descriptor.
    auto answer = std::make_shared<Answer>(work());
    mailbox_.post([answer, done] { done(std::move(*answer)); });
  });
}

bool XdpPlane::configure(const std::optional<TargetSpec>& target) {
  if (target == configured_ && !is_detached_) return false;
  configured_ = target;
  is_detached_ = false;
  worker_.submit([this, target] { take_target(target); });
  return true;
}

void XdpPlane::connect(std::function<void(Result<Fd>)> done) {
  let_worker<Result<Fd>>([this] { return connect_now(); }, std::move(done));
}

void XdpPlane::detach(const std::string& interface, int timeout_ms, std::function<void(Names)> done) {
  is_detached_ = true;
  let_worker<Names>([this, interface, timeout_ms] { return detach_now(interface, timeout_ms); }, std::move(done));
}

Result<void> XdpPlane::bypass(bool on) {
  const std::lock_guard lock(mutex_);
  if (open_ == nullptr) return Error{"the XDP plane is not open"};
  open_->bypass(on);
  return {};
}

void XdpPlane::close() {
  {
    const std::lock_guard lock(mutex_);
    open_ = nullptr;
  }
  server_.reset();
}

void XdpPlane::take_target(std::optional<TargetSpec> target) {
  close();
  detached_.clear();
  const std::optional<TargetSpec> before = std::exchange(target_, std::move(target));
  if (!before) return;
  if (!target_) {
    leaving_.clear();
    const Result<std::vector<std::string>> off = xdp::detach_pinned(bpf_dir_, std::nullopt);
    if (!off) {
      spdlog::error("the policy has no xdp target any more, but its programs cannot be detached: {}", off.error());
    } else {
      spdlog::warn("the policy has no xdp target any more: detached from {}",
                   off->empty() ? "nothing" : fmt::format("{}", fmt::join(*off, ", ")));
    }
    return;
  }
  for (const std::string& name : before->interfaces) {
    if (!contains(leaving_, name)) leaving_.push_back(name);
  }
  std::erase_if(leaving_, [&](const std::string& name) { return contains(target_->interfaces, name); });
}

Result<Fd> XdpPlane::connect_now() {
  if (!target_) return Error{"the policy has no xdp target any more"};
  if (!server_) {
    const Result<void> opened = open();
    detach_leaving();
    if (!opened) return Error{opened.error()};
  }
  return server_->connect();
}

Result<void> XdpPlane::open() {
  xdp::Options options;
  for (const std::string& name : target_->interfaces) {
    if (!contains(detached_, name) && !contains(detached_, "")) options.interfaces.push_back(name);
  }
  options.attach = attach_of(target_->attach);
  options.bpf_dir = bpf_dir_;
  Result<std::unique_ptr<xdp::Enforcer>> enforcer = xdp::Enforcer::open(std::move(options));
  if (!enforcer) return Error{enforcer.error()};
  server_ = std::make_unique<xdp::Server>(std::move(*enforcer), bpf_dir_);
  const std::lock_guard lock(mutex_);
  open_ = server_.get();
  return {};
}

void XdpPlane::detach_leaving() {
  const Result<std::vector<std::string>> pinned = xdp::pinned_interfaces(bpf_dir_);
  for (const std::string& name : leaving_) {
    if (pinned && !contains(*pinned, name)) continue;
    const Result<std::vector<std::string>> off = xdp::detach_pinned(bpf_dir_, name);
    if (off) {
      spdlog::warn("xdp: {} is not in the policy any more: detached", name);
    } else {
      spdlog::error("xdp: {} is not in the policy any more, but it cannot be detached: {}", name, off.error());
    }
  }
  leaving_.clear();
}

XdpPlane::Names XdpPlane::detach_now(const std::string& interface, int timeout_ms) {
  wire::DetachBody body;
  if (interface.size() >= sizeof body.interface) return Error{"no interface has so long a name"};
  wire::set_text(body.interface, interface);
  if (!contains(detached_, interface)) detached_.push_back(interface);
  if (!server_) return xdp::detach_pinned(bpf_dir_, interface.empty() ? std::nullopt : std::optional(interface));
  const Result<Fd> connection = server_->connect();
  if (!connection) return Error{connection.error()};
  if (Result<void> limited = unix_socket::set_timeout(connection->get(), timeout_ms); !limited) {
    return Error{limited.error()};
  }
  const Result<wire::Message> answer = wire::call(connection->get(), wire::Type::detach, wire::bytes_of(body));
  if (!answer) return Error{answer.error()};
  const std::optional<std::vector<wire::InterfaceBody>> off = wire::interfaces_from(*answer);
  if (!off) return Error{"the answer of the XDP plane cannot be understood"};
  std::vector<std::string> names;
  for (const wire::InterfaceBody& one : *off) names.push_back(wire::get_text(one.name));
  return names;
}

std::vector<std::string> XdpPlane::left_over() const {
  Result<std::vector<std::string>> pinned = xdp::pinned_interfaces(bpf_dir_);
  if (!pinned) return {};
  const auto is_named = [&](const std::string& name) { return configured_ && contains(configured_->interfaces, name); };
  std::erase_if(*pinned, is_named);
  return std::move(*pinned);
}

}  // namespace weir::control
