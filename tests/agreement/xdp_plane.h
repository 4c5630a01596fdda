#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bpf/enforce/enforcer.h"
#include "common/result.h"
#include "tests/agreement/publication.h"

// The XDP program as the kernel runs it, without an interface: one frame at a time, by BPF_PROG_TEST_RUN.
namespace weir::agreement {

// The kernel's test run takes no frame that is shorter; no driver hands one over.
constexpr size_t kLeastXdpFrame = 14;

class XdpPlane {
 public:
  // In a folder of its own of the BPF file system, which goes with it. Error: not root, or no BPF here.
  static Result<std::unique_ptr<XdpPlane>> open();
  ~XdpPlane();
  XdpPlane(const XdpPlane&) = delete;

  // The number that the next publication must have, and its epoch.
  wire::Generation next_generation() { return {kEpoch, ++number_}; }
  // Counters go on where they are. Error: it is refused, and why.
  Result<void> publish(const control::Publication& publication);
  // Another enforcer takes over what is pinned.
  Result<void> restart();
  void set_now(uint64_t now_unix_s) { enforcer_->fix_clock(now_unix_s); }

  // Judges one frame of at least kLeastXdpFrame bytes; true: it drops.
  Result<bool> drops(std::span<const uint8_t> frame) const;
  wire::Stats stats() const { return enforcer_->stats().value(); }

 private:
  XdpPlane(std::string bpf_dir, std::unique_ptr<xdp::Enforcer> enforcer);

  const std::string bpf_dir_;
  std::unique_ptr<xdp::Enforcer> enforcer_;
  uint64_t number_ = 0;
};

}  // namespace weir::agreement
