#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "common/shadow.h"
#include "control/tell/answer/change.h"

namespace weir::control {

struct Base;

// Flows that the candidate of a shadow and what runs judge differently: the newest of those that were sampled.
class ShadowFlows {
 public:
  static constexpr size_t kMost = 256;

  void clear() { rows_.clear(); }
  void add(const wire::Shadow& told);
  // Flows with the most sampled frames come first.
  std::vector<ShadowFlowRow> rows() const;

 private:
  std::map<std::string, ShadowFlowRow> rows_;  // by all that is told of a flow but how often and when
};

// A candidate that judges beside what runs.
struct Shadowing {
  std::string path;
  std::shared_ptr<const std::string> text;  // of that file, as it was compiled
  uint32_t one_in = 1;
  int64_t at = 0;  // Unix seconds
  std::shared_ptr<const Base> base;
  wire::Generation beside;  // what ran when it began
  Diagnostics diagnostics;
};

}  // namespace weir::control
