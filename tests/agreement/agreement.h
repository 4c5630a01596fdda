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
#include "tests/reference/classifier.h"

// The data plane's stages, parse to verdict, beside the reference: the same frames, verdict by verdict, list by list,
// and at the end counter by counter.
namespace weir::agreement {

struct Tally {
  uint64_t packets = 0, bytes = 0;
  void add(uint64_t frame_bytes) {
    packets++;
    bytes += frame_bytes;
  }
};

struct ListTally {
  Tally matched, dropped, passed, would_drop;
};

struct Counted {
  uint64_t packets = 0, bytes = 0, passed = 0, dropped = 0, malformed = 0, not_ip = 0, incomplete = 0;
  uint64_t default_passed = 0, default_dropped = 0;
  uint64_t hits = 0;     // frames that some list matches
  uint64_t layered = 0;  // frames with more than one layer
};

class Agreement {
 public:
  // Borrows the policy. Error: it cannot be compiled.
  static Result<std::unique_ptr<Agreement>> open(const control::Policy& policy, uint64_t secret);

  // Judges the frames at this time. cuts: decides which of them come in several segments. Returns what differs first.
  std::optional<std::string> judge(std::span<const Frame> frames, uint64_t now, Choices& cuts);

  // Every counter so far. Returns what differs.
  std::optional<std::string> check_counters() const;

  const Counted& counted() const { return expected_; }

 private:
  struct Expected {
    reference::ClassifiedFrame verdict;
    bool not_ip = false, malformed = false, incomplete = false;
  };

  Agreement(const control::Policy& policy, std::unique_ptr<dataplane::Snapshot> snapshot,
            const filter::Kernels& kernels);
  Expected expect(const Frame& frame, uint64_t now);
  std::optional<std::string> compare(const dataplane::Burst& burst, std::span<const Frame> frames, uint64_t now);

  const control::Policy& policy_;
  reference::Classifier classifier_;
  bool ask_linearly_;
  std::unique_ptr<dataplane::Snapshot> snapshot_;
  dataplane::Flight flight_;
  dataplane::WorkerCounters counters_;
  Counted expected_;
  std::vector<ListTally> expected_lists_;
};

// A frame as a C array and what the policy makes of it, to paste into a test.
std::string describe(const Frame& frame);

}  // namespace weir::agreement
