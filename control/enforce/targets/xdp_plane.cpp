#include "control/enforce/targets/xdp_plane.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "common/log/log.h"

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
  const bool is_first = std::exchange(is_first_, false);
  if (!is_first && target == configured_ && !xdp::is_detached(bpf_dir_, "") && !owes_detach_) return false;
  if (is_first && !target) return false;
  configured_ = target;
  has_target_ = target.has_value();
  worker_.submit([this, target] { take_target(target); });
  return true;
}

void XdpPlane::connect(std::function<void(Result<Fd>)> done) {
  let_worker<Result<Fd>>([this] { return connect_now(); }, std::move(done));
}

XdpPlane::Names XdpPlane::detach(const std::string& interface) {
  if (interface.size() >= IF_NAMESIZE) return Error{"no interface has so long a name"};
  const Names off = xdp::detach_on_demand(bpf_dir_, interface.empty() ? std::nullopt : std::optional(interface),
                                          has_target_ ? xdp::Maps::stay : xdp::Maps::go);
  const std::lock_guard lock(mutex_);
  if (open_ != nullptr) open_->tend();
  return off;
}

Result<void> XdpPlane::bypass(bool on) {
  {
    const std::lock_guard lock(mutex_);
    if (open_ != nullptr) return open_->bypass(on), Result<void>();
  }
  return xdp::bypass_pinned(bpf_dir_, on);  // it is being opened, or cannot be
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
  xdp::forget_detached(bpf_dir_);
  const std::optional<TargetSpec> before = std::exchange(target_, std::move(target));
  if (!before && !owes_detach_) return;
  owes_detach_ = false;
  if (!target_) {
    leaving_.clear();
    const Result<std::vector<std::string>> off = xdp::detach_pinned(bpf_dir_, std::nullopt);
    if (!off) {
      owes_detach_ = true;
      log::error(
          "the policy has no xdp target any more, but its programs cannot be detached; the next reload tries again",
          {{"error", off.error()}});
    } else {
      log::change("xdp detached", {{"interfaces", off->empty() ? "none" : fmt::format("{}", fmt::join(*off, ","))},
                                   {"cause", "the policy has no xdp target any more"}});
    }
    return;
  }
  for (const std::string& name : before ? before->interfaces : std::vector<std::string>()) {
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
  // Only root ever had them; of others the kernel says what they may not.
  const confine::Capabilities missing = kXdpCapabilities & ~confine::own_capabilities();
  if (geteuid() == 0 && missing != 0) {
    return Error{"controld started without an xdp target and gave up what that needs (" + confine::names_of(missing) +
                 "): start controld anew"};
  }
  xdp::Options options;
  options.interfaces = target_->interfaces;
  options.attach = attach_of(target_->attach);
  options.bpf_dir = bpf_dir_;
  Result<std::unique_ptr<xdp::Enforcer>> enforcer = xdp::Enforcer::open(std::move(options));
  if (!enforcer) return Error{enforcer.error()};
  auto server = std::make_unique<xdp::Server>(std::move(*enforcer), bpf_dir_);
  if (!server->failure().empty()) return Error{server->failure()};
  server_ = std::move(server);
  const std::lock_guard lock(mutex_);
  open_ = server_.get();
  return {};
}

void XdpPlane::detach_leaving() {
  const Result<std::vector<std::string>> pinned = xdp::pinned_interfaces(bpf_dir_);
  std::vector<std::string> stay;
  for (const std::string& name : leaving_) {
    if (pinned && !contains(*pinned, name)) continue;
    const Result<std::vector<std::string>> off = xdp::detach_pinned(bpf_dir_, name);
    if (off) {
      log::change("xdp detached", {{"interfaces", name}, {"cause", "it is not in the policy any more"}});
      continue;
    }
    log::error("xdp: an interface is not in the policy any more, but cannot be detached; the next reload tries again",
               {{"interface", name}, {"error", off.error()}});
    stay.push_back(name);
  }
  leaving_ = std::move(stay);
  owes_detach_ = !leaving_.empty();
}

std::vector<std::string> XdpPlane::left_over() const {
  Result<std::vector<std::string>> pinned = xdp::pinned_interfaces(bpf_dir_);
  if (!pinned) return {};
  const auto is_named = [&](const std::string& name) { return configured_ && contains(configured_->interfaces, name); };
  std::erase_if(*pinned, is_named);
  return std::move(*pinned);
}

}  // namespace weir::control
