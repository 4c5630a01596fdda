#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "bpf/enforce/program.h"
#include "bpf/program/plane.h"
#include "common/digest.h"
#include "common/key_window.h"
#include "common/probes.h"
#include "common/result.h"

namespace weir::xdp {

// What the program asked of its filters, made of the counters and the newest sampled keys of all processors. One
// thread, which looks once a second or so.
//
// The program counts by lookup, and goes on when it gets another snapshot: what was there when this one was first seen
// is of those before, or of the moments until then.
class Probes {
 public:
  // Error: the kernel does not give its counters. names_mutex: held by who changes what is enforced.
  // now_s: of a clock that never goes back.
  Result<wire::Probes> tell(const Program& program, std::mutex& names_mutex, uint64_t now_s);

 private:
  // A base, or an overlay.
  struct Part {
    Part() { shape_of.fill(-1); }
    Digest digest = {};
    std::array<int, WEIR_PROBES> shape_of;            // by probe; -1: none
    bool is_new = false;                              // first seen just now
    std::array<weir_probe, WEIR_PROBES> before = {};  // what was counted when it was first seen
    std::map<uint32_t, KeyWindow> windows;            // by shape
  };
  static Part part_of(const weir_group& group);
  void take_keys(std::span<const weir_totals> processors);

  std::array<Part, 2> parts_;   // the base, the overlay
  std::vector<uint64_t> seen_;  // by processor: sampled keys that were taken, or are of snapshots before
};

}  // namespace weir::xdp
