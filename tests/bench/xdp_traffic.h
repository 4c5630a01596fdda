#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/fd.h"
#include "common/result.h"
#include "tests/bench/xdp_tally.h"

struct xdp_generator;

// Frames of 60 bytes (IPv4, UDP) for XDP programs, by BPF_PROG_TEST_RUN: into a program without a network, or out of an
// interface. The source changes from frame to frame.
namespace weir::bench {

class XdpTraffic {
 public:
  // out: where send() sends, an interface of the network namespace of the caller; empty: nowhere.
  static Result<XdpTraffic> open(const std::string& out);
  XdpTraffic(XdpTraffic&&) = default;

  // XDP_SOURCES of them, big endian; they begin anew.
  void set_sources(std::span<const uint32_t> sources);
  // From here on run() runs this program (SEC "xdp": single buffers).
  Result<void> call(int program_fd);
  // Returns the nanoseconds of this thread.
  Result<double> run(uint32_t frames);
  // The verdict on one frame from there.
  Result<uint32_t> verdict(uint32_t source_be);

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
  XdpTraffic(Skeleton skeleton, Mapping sources) : skeleton_(std::move(skeleton)), sources_(std::move(sources)) {}

  Skeleton skeleton_;
  Mapping sources_;
};

// Times of test runs: nanoseconds of this thread's processor time.
double thread_ns();
double wall_ns();

}  // namespace weir::bench
