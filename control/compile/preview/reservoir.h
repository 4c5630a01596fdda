#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/wire.h"
#include "control/policy/model/policy.h"
#include "filter/format/frame_rules.h"
#include "filter/format/packet.h"

// What frames came of late, in a memory of fixed size: samples that targets told, passed and dropped frames alike.
namespace weir::control {

static_assert(wire::kMaxLayers == WEIR_MAX_LAYERS && wire::kPacketBytes == sizeof(weir_packet));

// A frame that was seen, without what it carried.
struct SeenFrame {
  uint64_t time_unix_ns = 0;
  double weight = 0;  // frames that it stands for
  uint32_t bytes = 0;
  wire::FrameKind kind = wire::FrameKind::packets;
  bool was_dropped = false;
  uint8_t target = 0;  // index into SeenTraffic::targets
  weir_packet outer = {};
  std::vector<weir_packet> inner = {};  // of tunnels, outside first
};

struct SeenTraffic {
  std::vector<SeenFrame> frames;
  std::vector<std::string> targets;
  uint64_t from_unix_ns = 0, to_unix_ns = 0;  // of the frames
};

// Keeps at most so many samples, of so many seconds. The time is cut into slices, each with its share of the samples:
// so old frames are as well known as new ones, and leave by slices. Within a slice, priority sampling (Duffield, Lund
// and Thorup, "Priority sampling for estimation of arbitrary subset sums", 2007): weights stay unbiased, for any set of
// frames that is asked for later. One thread.
class Reservoir {
 public:
  explicit Reservoir(uint64_t seed = std::random_device{}());

  // Samples that do not fit any more are forgotten.
  void set(const PlanSettings& settings);
  // What a target told just now.
  void take(const std::string& target, const wire::Traffic& traffic, uint64_t now_unix_ns);
  // Whatever is not too old, in no order.
  std::shared_ptr<const SeenTraffic> recent(uint64_t now_unix_ns) const;
  size_t size() const;

  // Samples of all targets since this object was made.
  struct Counts {
    uint64_t taken = 0;
    uint64_t lost = 0;  // in a target that had no room, or on the way
  };
  const Counts& counts() const { return counts_; }

 private:
  static constexpr size_t kSlices = 16;  // one of them is that which passes
  struct Kept {
    double priority;  // weight over a random number in (0, 1]: the least ones leave
    SeenFrame frame;
  };
  struct Slice {
    uint64_t number = 0;     // of the time; 0: empty
    double forgotten = 0;    // the greatest priority that left: no frame weighs less
    std::vector<Kept> kept;  // a heap, the least priority first
  };
  uint64_t slice_ns() const { return uint64_t{settings_.recent_s} * 1'000'000'000 / (kSlices - 1) + 1; }
  void count(const std::string& target, const wire::TrafficBody& now, size_t frames);
  void keep(SeenFrame frame);
  static bool is_more(const Kept& a, const Kept& b) { return a.priority > b.priority; }
  static void trim(Slice& slice, size_t most);

  PlanSettings settings_;
  std::array<Slice, kSlices> slices_;
  std::vector<std::string> targets_;
  Counts counts_;
  std::map<std::string, wire::TrafficBody> last_;  // of each target
  std::mt19937_64 random_;
};

}  // namespace weir::control
