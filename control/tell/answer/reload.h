#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/compile/preview/over_limit.h"
#include "control/lists/book/difference.h"
#include "control/tell/answer/parts.h"

// Answers to requests that change something.
namespace weir::control {

void members(Fields& f, ListChange& change);
void members(Fields& f, Share& share);
void members(Fields& f, OverLimit& over);

struct ReloadAnswer {
  bool ok = false;
  wire::Generation generation;
  int64_t at = 0;
  std::string cause;
  std::vector<std::pair<std::string, double>> phases;
  double total_ms = 0;
  uint64_t entries = 0, snapshot_bytes = 0;
  std::vector<ListChange> changes;
  std::vector<TargetOutcome> targets;
  std::vector<RefusedFeed> refused;
  std::vector<OverLimit> over_limits;
  uint64_t errors = 0, warnings = 0;
  std::vector<Diagnostic> diagnostics;
  std::string error;
};
void members(Fields& f, ReloadAnswer& answer);

struct BypassAnswer {
  struct Told {
    bool ok = false;
    std::vector<TargetOutcome> targets;
  };
  bool bypass = false;
  bool controld = true;      // false: it does not answer, and the targets were told directly
  std::optional<Told> told;  // empty: it failed before a target was told
  std::string error;
};
void members(Fields& f, BypassAnswer::Told& told);
void members(Fields& f, BypassAnswer& answer);

struct DetachAnswer {
  bool ok = true;
  bool controld = true;
  std::vector<std::string> detached;
};
void members(Fields& f, DetachAnswer& answer);

struct DetachFailure {
  bool controld = true;
  std::string error;
};
void members(Fields& f, DetachFailure& failure);

}  // namespace weir::control
