#include "control/publish/targets/xdp_plane.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>

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

bool XdpPlane::is_configured(const std::optional<TargetSpec>& target) const {
  std::lock_guard lock(mutex_);
  return target == target_ && detached_.empty();
}

void XdpPlane::configure(std::optional<TargetSpec> target) {
  std::lock_guard lock(mutex_);
  if (target == target_ && detached_.empty()) return;
  server_.reset();
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

Result<Fd> XdpPlane::connect() {
  std::lock_guard lock(mutex_);
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

Result<std::vector<std::string>> XdpPlane::detach(const std::string& interface, int timeout_ms) {
  wire::DetachBody body;
  if (interface.size() >= sizeof body.interface) return Error{"no interface has so long a name"};
  wire::set_text(body.interface, interface);
  Fd connection;
  {
    std::lock_guard lock(mutex_);
    if (!contains(detached_, interface)) detached_.push_back(interface);
    if (!server_) {
      return xdp::detach_pinned(bpf_dir_, interface.empty() ? std::nullopt : std::optional(interface));
    }
    Result<Fd> connected = server_->connect();
    if (!connected) return Error{connected.error()};
    connection = std::move(*connected);
  }
  const timeval timeout{timeout_ms / 1000, timeout_ms % 1000 * 1000};
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  const Result<wire::Message> answer = wire::call(connection.get(), wire::Type::detach, wire::bytes_of(body));
  if (!answer) return Error{answer.error()};
  const std::optional<std::vector<wire::InterfaceBody>> off = wire::interfaces_from(*answer);
  if (!off) return Error{"the answer of the XDP plane cannot be understood"};
  std::vector<std::string> names;
  for (const wire::InterfaceBody& one : *off) names.push_back(wire::get_text(one.name));
  return names;
}

std::vector<std::string> XdpPlane::left_over() const {
  std::lock_guard lock(mutex_);
  Result<std::vector<std::string>> pinned = xdp::pinned_interfaces(bpf_dir_);
  if (!pinned) return {};
  if (target_) std::erase_if(*pinned, [&](const std::string& name) { return contains(target_->interfaces, name); });
  return std::move(*pinned);
}

}  // namespace weir::control
