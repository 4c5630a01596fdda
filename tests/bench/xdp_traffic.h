#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/fd.h"
#include "common/result.h"
#include "tests/bench/xdp_tally.h"

struct xdp_generator;

// Frames of UDP in IPv4 (60 bytes) or IPv6 (62) for XDP programs, by BPF_PROG_TEST_RUN: into a program without a
// network, or out of an interface. The source changes from frame to frame.
namespace weir::bench {

class XdpTraffic {
 public:
  // out: where send() sends, an interface of the network namespace of the caller; empty: nowhere. tags: of VLAN, at
  // most 7, in frames of IPv4.
  static Result<XdpTraffic> open(const std::string& out, unsigned family = 4, unsigned tags = 0);
  XdpTraffic(XdpTraffic&&) = default;

  // At most XDP_SOURCES of them, as xdp_hosts.h gives them; they begin anew.
  void set_sources(std::span<const uint64_t> sources);
  // From here on run() runs this program (SEC "xdp": single buffers).
  Result<void> call(int program_fd);
  // Returns the nanoseconds of this thread.
  Result<double> run(uint32_t frames);
  // The verdict on one frame from there, as set_sources.
  Result<uint32_t> verdict(uint64_t source);

  struct Sent {
    uint64_t frames;
    double wall_ns;
    double core_ns;  // of the processor: this thread's, and what its soft interrupts took elsewhere
  };
  Result<Sent> send(double seconds);

 private:
  struct Destroy {
    void operator()(xdp_generator* skeleton) const;
  };
  using Skeleton = std::unique_ptr<xdp_generator, Destroy>;
  XdpTraffic(Skeleton skeleton, Mapping sources, std::vector<uint8_t> frame)
      : skeleton_(std::move(skeleton)), sources_(std::move(sources)), frame_(std::move(frame)) {}

  Skeleton skeleton_;
  Mapping sources_;
  std::vector<uint8_t> frame_;  // before its source is written into it
};

// Times of test runs: nanoseconds of this thread's processor time.
double thread_ns();
double wall_ns();

}  // namespace weir::bench
