#include "tests/agreement/xdp_plane.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace weir::agreement {

XdpPlane::XdpPlane(std::string bpf_dir, std::unique_ptr<xdp::Enforcer> enforcer)
    : bpf_dir_(std::move(bpf_dir)), enforcer_(std::move(enforcer)) {}

XdpPlane::~XdpPlane() {
  (void)xdp::detach_pinned(bpf_dir_, std::nullopt);
  enforcer_.reset();
  rmdir(bpf_dir_.c_str());
}

Result<std::unique_ptr<XdpPlane>> XdpPlane::open() {
  static std::atomic<unsigned> opened = 0;
  if (geteuid() != 0) return Error{"loading an XDP program needs root"};
  const std::string bpf_dir =
      std::string(xdp::kDefaultBpfDir) + "/weir-test-" + std::to_string(getpid()) + "-" + std::to_string(opened++);
  Result<std::unique_ptr<xdp::Enforcer>> enforcer = xdp::Enforcer::open({{}, xdp::Attach::any, bpf_dir});
  if (!enforcer) return Error{enforcer.error()};
  return std::unique_ptr<XdpPlane>(new XdpPlane(bpf_dir, std::move(*enforcer)));
}

Result<void> XdpPlane::publish(const control::Publication& publication) {
  return send_to([this](const wire::Message& message) { return enforcer_->publish(message); }, publication);
}

Result<void> XdpPlane::restart() {
  enforcer_.reset();
  Result<std::unique_ptr<xdp::Enforcer>> enforcer = xdp::Enforcer::open({{}, xdp::Attach::any, bpf_dir_});
  if (!enforcer) return Error{enforcer.error()};
  enforcer_ = std::move(*enforcer);
  return {};
}

Result<bool> XdpPlane::drops(std::span<const uint8_t> frame) const {
  LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(), .data_size_in = static_cast<uint32_t>(frame.size()),
              .repeat = 1);
  if (bpf_prog_test_run_opts(enforcer_->program_fd(), &run) != 0) {
    return Error{"a frame of " + std::to_string(frame.size()) + " bytes cannot be run: " + strerror(errno)};
  }
  if (run.retval == XDP_DROP) return true;
  if (run.retval == XDP_PASS) return false;
  return Error{"the program returned " + std::to_string(run.retval)};
}

}  // namespace weir::agreement
