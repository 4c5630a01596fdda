#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/capture.h"

// The state of the capture, and counts of its samples (docs/operate/capture.md, "Counters").
namespace weir::control {

// Since controld started: sampled = limited + filtered + written + logged + lost + waiting.
struct CaptureCounts {
  uint64_t sampled = 0;  // dropped frames that the targets chose
  uint64_t written = 0;
  uint64_t filtered = 0;  // that the filter does not want
  uint64_t limited = 0;   // past per_list_per_second
  uint64_t logged = 0;    // while no files are written: kept in memory, for who follows
  uint64_t lost = 0;      // in a target, on the way, or because they could not be written
  uint64_t waiting = 0;   // in a target, or for their entry, or for the next write
};

struct CaptureState {
  struct Target {
    std::string socket;
    std::string error;  // why it gives no samples; empty: it does
  };
  struct Files {
    CaptureSettings settings;  // folder filled
    std::string current;       // path of the file that is written; empty: none
    std::vector<Target> targets;
  };
  bool on = false;    // samples are fetched and written
  std::string error;  // why nothing is written; empty: well
  CaptureCounts counts;
  std::optional<Files> files;  // when on
};

// Samples on their way to the log, counted since controld started.
struct DropCounts {
  uint64_t sampled = 0;  // that the targets chose
  uint64_t limited = 0;  // past a limit of their list
  uint64_t lost = 0;     // in a target, or on the way
  uint64_t waiting = 0;  // in a target, or for their entry
};

}  // namespace weir::control
