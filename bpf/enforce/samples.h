#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bpf/enforce/program.h"
#include "common/clock.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::xdp {

// A ring in which the program puts samples (bpf/program/sample.bpf.h). One thread.
class SampleRing {
 public:
  // Appends one, as a message has it.
  using Append = void (*)(std::span<const std::byte> record, std::vector<std::byte>& body);
  // longest: that append() appends. told: raised for each that is taken out.
  static Result<SampleRing> open(int map, Append append, size_t longest, uint64_t& told);
  SampleRing();  // none
  SampleRing(SampleRing&&) noexcept;
  SampleRing& operator=(SampleRing&&) noexcept;
  ~SampleRing();

  // Takes out what waits and appends it to the body of an answer, oldest first, as much as a message holds. Returns how
  // many.
  uint32_t drain(std::vector<std::byte>& body);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// What the program is told to sample, and the samples of it. One thread.
class Samples {
 public:
  // Nothing is sampled from then on, until somebody asks; samples that wait in the rings stay there.
  static Result<Samples> open(const Program& program);

  // The bodies of answers. The program samples from now on as is wanted.
  Result<std::vector<std::byte>> drops(const Program& program, const wire::SamplingBody& wanted);
  Result<std::vector<std::byte>> traffic(const Program& program, const wire::TrafficRequest& wanted);

 private:
  uint32_t one_in(uint32_t per_second, uint64_t frames);

  SampleRing drops_, traffic_;
  // The rate of frames.
  uint64_t frames_ = 0;
  Clock::time_point frames_at_;
  double frames_per_second_ = 0;
};

}  // namespace weir::xdp
