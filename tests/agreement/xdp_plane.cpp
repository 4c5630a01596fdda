#include "tests/agreement/xdp_plane.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "common/digest.h"
#include "common/files.h"

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

Result<void> XdpPlane::publish(std::span<const std::byte> snapshot, wire::Generation generation) {
  wire::Message message;
  message.fd.reset(memfd_create("snapshot", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!message.fd) return errno_error("cannot make a memory file");
  for (std::span<const std::byte> left = snapshot; !left.empty();) {
    const ssize_t n = write(message.fd.get(), left.data(), left.size());
    if (n <= 0) return errno_error("cannot write the memory file");
    left = left.subspan(static_cast<size_t>(n));
  }
  if (fcntl(message.fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
    return errno_error("cannot seal the memory file");
  }
  wire::PublishBody body;
  body.generation = generation;
  const auto digest = digest_of(snapshot);
  body.digest[0] = digest[0];
  body.digest[1] = digest[1];
  body.size_bytes = snapshot.size();
  message.body.assign(wire::bytes_of(body).begin(), wire::bytes_of(body).end());
  const wire::PublishedBody answer = enforcer_->publish(message);
  if (answer.ok == 0) return Error{std::string(wire::step_name(answer.failed_step)) + ": " + answer.reason};
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
