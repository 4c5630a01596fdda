#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy.h"
#include "dataplane/flight.h"
#include "dataplane/snapshot.h"
#include "tests/agreement/choices.h"
#include "tests/agreement/random_frames.h"
#include "tests/reference/judge.h"

// The data plane's stages, parse to verdict, beside the reference: the same frames, verdict by verdict, list by list,
// and at the end counter by counter.
namespace weir::agreement {

// Frames that were compared.
struct Compared {
  uint64_t packets = 0, dropped = 0, malformed = 0, incomplete = 0;
  uint64_t hits = 0;     // some list matches
  uint64_t layered = 0;  // more than one layer
  uint64_t disagreements = 0;

  Compared& operator+=(const Compared& more);
};

class Agreement {
 public:
  // Borrows the policy. Error: it cannot be compiled.
  static Result<std::unique_ptr<Agreement>> open(const control::Policy& policy, uint64_t secret);

  // Judges the frames at this time. cuts: decides which of them come in several segments. Returns what differs first;
  // every frame that differs is counted.
  std::optional<std::string> judge(std::span<const Frame> frames, uint64_t now, Choices& cuts);

  // Every counter so far. Returns what differs.
  std::optional<std::string> check_counters() const;

  const Compared& compared() const { return compared_; }

 private:
  Agreement(const control::Policy& policy, std::unique_ptr<dataplane::Snapshot> snapshot,
            const filter::Kernels& kernels);
  // problem: set by the first frame that differs.
  void compare(const dataplane::Burst& burst, std::span<const Frame> frames, uint64_t now,
               std::optional<std::string>& problem);

  const control::Policy& policy_;
  reference::Judge judge_;
  std::unique_ptr<dataplane::Snapshot> snapshot_;
  dataplane::Flight flight_;
  dataplane::WorkerCounters counters_;
  Compared compared_;
};

// A frame as a C array and what the policy makes of it, to paste into a test.
std::string describe(const Frame& frame);

}  // namespace weir::agreement
