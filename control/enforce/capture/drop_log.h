#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "common/wire.h"
#include "control/lists/book/claims.h"
#include "control/policy/read/frame_filter.h"

namespace weir::control {

// A sampled drop, and the entry that it is credited to; empty: none, or not known.
struct Drop {
  wire::SampledFrame frame;
  std::optional<Origin> entry;
  std::string target;
  bool has_interfaces = false;  // the target: its ports are interfaces of this machine
};

// The newest sampled drops, in memory, numbered from 1 as they came. Readers come back with the number of the last one
// that they saw.
class DropLog {
 public:
  static constexpr size_t kMostKept = 4096;  // about a kilobyte each

  DropLog();
  const std::string& id() const { return id_; }  // another one of every log: numbers begin anew with it
  void add(Drop drop);
  uint64_t added() const { return added_; }  // the number of the newest one
  size_t size() const { return kept_.size(); }

  // Which of them somebody wants.
  struct Wanted {
    std::string list;    // empty: whatever drops
    FrameFilter filter;  // of their frames
    bool operator()(const Drop& drop) const;
  };
  struct Page {
    std::vector<const Drop*> drops;  // valid until the next add()
    uint64_t last = 0;               // that was looked at: the next page begins behind it
    uint64_t missed = 0;             // behind `after`, but no longer kept
  };
  // Those behind number `after` that are wanted, oldest first, at most so many.
  Page page(uint64_t after, const Wanted& wanted, size_t most) const;

 private:
  const std::string id_;
  std::deque<Drop> kept_;
  uint64_t added_ = 0;
};

}  // namespace weir::control
