#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "common/result.h"

struct bpf_program;

namespace weir::control {

// A filter expression of libpcap (pcap-filter(7)) for Ethernet frames.
class FrameFilter {
 public:
  // Empty expression: every frame passes. Names in it are resolved now, by the system. Error: libpcap's words.
  static Result<FrameFilter> compile(const std::string& expression);

  // What it was compiled to, as `tcpdump -ddd` prints it, with a comma for each end of a line; empty: every frame
  // passes.
  std::string program_text() const;
  // The same, of anybody: it is checked, needs no name of the system, and ends. Error: it is no such program.
  static Result<FrameFilter> of_program(std::string_view text);

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
