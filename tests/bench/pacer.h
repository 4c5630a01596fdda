#pragma once

#include <rte_mempool.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "tests/bench/ledger.h"

namespace weir::bench {

constexpr uint16_t kOut = 0, kPassed = 1, kDropped = 2;
constexpr double kBucket_s = 0.001;  // resolution of Run::pauses

using Frame = std::array<uint8_t, 64>;

// Set by a signal: the running pace ends early.
inline std::atomic<bool> stop = false;

// The longest pauses seen in one millisecond of a run, in us, and the packets it missed.
struct Pauses {
  float arrival = 0;     // between two arrivals
  float while_here = 0;  // the same, of those through which this loop was awake: the data plane's own
  float away = 0;        // this loop was interrupted
  uint32_t missed = 0;   // as Run::missed
};

struct Run {
  explicit Run(uint64_t first_number) : ledger(first_number) {}
  Ledger ledger;
  uint64_t sent = 0;
  uint64_t missed = 0;   // due, but the data plane had too much to catch up with
  uint64_t skipped = 0;  // due, but this loop was away or too slow: not sent later, a pace has no arrears
  uint64_t foreign = 0;  // frames that are not ours
  double seconds = 0, away_seconds = 0;
  uint64_t start = 0;  // TSC
  std::vector<Pauses> pauses;

  uint64_t lost() const { return ledger.lost() + missed; }
  double sent_per_s() const { return static_cast<double>(sent) / seconds; }
};

// Sends at a pace on port kOut and takes back what comes on kPassed and kDropped; all three are started.
class Pacer {
 public:
  Pacer(rte_mempool* pool, uint32_t flows);

  // Paces for so long, or until stop or (a trial) the first packet that is lost, then waits for what is under way.
  enum class Until : uint8_t { time, loss };
  Run run(double rate, double seconds, double quantum_us, Until until = Until::time);

  double seconds_since(uint64_t tsc) const;
  double to_seconds(uint64_t ticks) const { return static_cast<double>(ticks) / hz_; }

 private:
  uint16_t send(Run& run, uint64_t count, bool first_of_batch);
  uint64_t receive(Run& run, uint64_t now);
  uint64_t receive_port(Run& run, uint16_t port, uint64_t now);

  rte_mempool* pool_;
  double hz_;
  std::vector<Frame> frames_;
  uint64_t next_ = 0;  // number of the next packet, over all runs
};

}  // namespace weir::bench
