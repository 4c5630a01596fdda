#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "bpf/enforce/program.h"
#include "common/result.h"
#include "common/wire.h"

namespace weir::xdp {

// The ring in which the program puts samples of what it drops (bpf/program/sample.bpf.h). One thread.
class SampleRing {
 public:
  // Nothing is sampled from then on, until somebody asks; samples that wait in the ring stay there.
  static Result<SampleRing> open(const Program& program);
  SampleRing();  // none
  SampleRing(SampleRing&&) noexcept;
  SampleRing& operator=(SampleRing&&) noexcept;
  ~SampleRing();

  // The body of an answer to wire::Type::samples. The program samples from now on as is wanted.
  Result<std::vector<std::byte>> answer(const Program& program, const wire::SamplingBody& wanted);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace weir::xdp
