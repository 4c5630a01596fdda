#pragma once

#include <cstdint>

namespace weir::dataplane {

// Whether a worker asks the gates. Where nearly all packets are on a list, as under attack, gates only cost: so while
// they let most through the worker goes around them, and every packet comes to the lookups.
//
// Where to change over is no fine question: at half of the packets on a list, gates cost what they save.
class GateWatch {
 public:
  bool asks() const noexcept { return asks_; }
  // Most packets that were judged of late are on no list: the gates should be asked again. Packets of a flow that waits
  // could be overtaken by its next one then, so all that wait leave before ask_again().
  bool should_ask_again() const noexcept { return !asks_ && should_ask_; }
  void ask_again() noexcept { *this = {}; }

  // Of a reception: how many wait for lookups.
  void saw(uint32_t received, uint32_t waiting) noexcept {
    if (!asks_) return;
    seen_ += received;
    counted_ += waiting;
    if (seen_ < kAtOnce) return;
    asks_ = counted_ * 4 <= seen_ * 3;
    seen_ = counted_ = 0;
  }
  // Of a group that waited: how many are on a list. Those that were received before the change count, too: few.
  void judged(uint32_t frames, uint32_t listed) noexcept {
    if (asks_) return;
    seen_ += frames;
    counted_ += listed;
    if (seen_ < kAtOnce) return;
    should_ask_ = counted_ * 8 < seen_ * 5;
    seen_ = counted_ = 0;
  }

 private:
  static constexpr uint32_t kAtOnce = 1024;  // packets that are looked at together

  bool asks_ = true, should_ask_ = false;
  uint32_t seen_ = 0, counted_ = 0;  // asks: received, waiting; else judged, listed
};

}  // namespace weir::dataplane
