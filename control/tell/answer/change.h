#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/tell/answer/parts.h"

// What became of `add`, `del` and `flush`.
namespace weir::control {

struct ChangeAnswer {
  bool ok = false;
  std::string list;
  wire::Generation generation;
  uint64_t added = 0, renewed = 0, deleted = 0, missing = 0;
  std::string still_held;
  uint64_t widened = 0;
  std::vector<std::string> widened_texts;
  uint64_t entries = 0;
  double total_ms = 0;
  std::vector<TargetOutcome> targets;
  std::string error;
};
void members(Fields& f, ChangeAnswer& answer);

}  // namespace weir::control
