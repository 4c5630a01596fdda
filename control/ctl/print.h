#pragma once

#include <string>
#include <vector>

#include "control/tell/answer/change.h"
#include "control/tell/answer/explain.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/stats.h"
#include "control/tell/answer/status.h"

// Pieces of answers that several commands print.
namespace weir::control::ctl {

std::string generation_text(const wire::Generation& generation);  // 7 (epoch 0123456789abcdef); none
std::string joined(const std::vector<std::string>& texts);        // a, b, c; -
std::string directions_text(uint8_t mask);                        // src, dst; -
std::string layout_text(const ShapeReport& shape);                // line8: 0.5 % wanted
std::string bits_per_key_text(const ShapeReport& shape);          // 11.6; -

std::string place_text(const Origin& origin);  // feeds/c2.txt:17; controlctl add
// drop by list c2: 203.0.113.7 (feeds/c2.txt:17); only monitored by watch
std::string verdict_text(const Verdict& verdict);

std::string capture_text(const CaptureState& capture);  // on; 12 of 20 samples written, 8 past a list's limit, 0 lost

// The reason of a failure: "2 errors in the policy", or its error; empty: it did not fail.
std::string reason_text(const Diagnostics& diagnostics, const std::string& error);
void print_diagnostics(const std::vector<Diagnostic>& diagnostics);  // to stderr
void print_targets(const std::vector<TargetOutcome>& outcomes);      // those that failed to stderr
void print_reload(const ReloadAnswer& answer);                       // a whole one, as `reload` does

}  // namespace weir::control::ctl
