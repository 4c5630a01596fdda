#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/result.h"

struct bpf_program;

namespace weir::control {

// A filter expression of libpcap (pcap-filter(7)) for Ethernet frames.
class FrameFilter {
 public:
  // Empty expression: every frame passes. Names in it are resolved now, by the system. Error: libpcap's words.
  static Result<FrameFilter> compile(const std::string& expression);

  // captured: the first bytes of a frame of frame_bytes.
  bool passes(std::span<const std::byte> captured, uint32_t frame_bytes) const;

 private:
  FrameFilter() = default;
  struct Free {
    void operator()(bpf_program* program) const;
  };
  std::unique_ptr<bpf_program, Free> program_;
};

}  // namespace weir::control
