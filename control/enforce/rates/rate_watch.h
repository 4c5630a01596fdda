#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/probes.h"
#include "control/compile/plan/plan.h"

namespace weir::control {

enum class RateVerdict : uint8_t {
  inside,  // nothing speaks against the predicted rate
  above,   // more of the sampled keys are let through than a sound filter lets through by chance
  below,   // fewer: bits may be lost, and entries with them
};
const char* verdict_name(RateVerdict verdict);

// What a target's filter of one shape was asked for of late, beside what is predicted.
struct WatchedRate {
  std::string shape;  // its name
  wire::ShapeProbes counts;
  RateBand predicted;
  RateVerdict verdict = RateVerdict::inside;
  int64_t since = 0;  // unix seconds; of `inside`: since the snapshot is watched, or the last alarm ended
};

// The verdict on one shape, of different keys that nobody lists. A sound filter is outside by chance less often than
// once in 10^12 looks; who is outside comes back only when once in 10^4 would do.
RateVerdict judge(const wire::ShapeProbes& counts, const RateBand& predicted, RateVerdict before);

// All targets' rates. A target that enforces another snapshot than what runs is not judged: its rates are not known.
class RateWatch {
 public:
  struct Change {
    std::string target;
    WatchedRate rate;  // as it is now
    RateVerdict before;
  };
  // What runs: the digests of the base and of the overlay, and their shapes as in the headers. Without an overlay its
  // shapes are empty.
  struct Watched {
    uint64_t base_digest[2] = {}, overlay_digest[2] = {};
    std::span<const ShapeReport> base, overlay;
  };
  // What the target has told just now. Returns what is not as it was before.
  std::vector<Change> take(const std::string& target, const wire::Probes& told, const Watched& watched, int64_t now);
  void forget(const std::string& target) { targets_.erase(target); }

  struct Of {
    uint64_t base_digest[2] = {}, overlay_digest[2] = {};
    std::vector<WatchedRate> rates;
  };
  const std::map<std::string, Of>& targets() const { return targets_; }

 private:
  std::map<std::string, Of> targets_;
};

}  // namespace weir::control
