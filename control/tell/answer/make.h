#pragma once

#include "control/compile/compile.h"
#include "control/enforce/capture/capture.h"
#include "control/enforce/targets/target.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/list.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"

// Answers are made from what the steps of controld report.
namespace weir::control {

ShapeDetails details_of(const ShapeReport& report);
GateDetails details_of(const GateReport& report);
ListDetails details_of(const ListSummary& list);
CaptureAnswer answer_of(const CaptureState& state);
TargetStatus status_of(const TargetState& state, wire::Generation running);
// fresh: it was told just now.
TargetStats stats_of(const TargetState& state, bool fresh);
TargetMeasures measures_of(const TargetState& state, bool fresh);

template <class Details, class Reports>
std::vector<Details> all_details(const Reports& reports) {
  std::vector<Details> all;
  for (const auto& report : reports) all.push_back(details_of(report));
  return all;
}

}  // namespace weir::control
