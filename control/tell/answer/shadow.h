#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/shadow.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/reload.h"

// What is told of a shadow: a candidate that judges live packets beside the policy that runs.
namespace weir::control {

// Frames that only one of both drops.
struct ShadowDifference {
  uint64_t newly_dropped = 0, newly_dropped_bytes = 0, newly_passed = 0, newly_passed_bytes = 0;
};
void members(Fields& f, ShadowDifference& difference);

struct ShadowListRow {
  std::string list;  // or "(default)", "(unparsed)"
  ShadowDifference difference;
};
void members(Fields& f, ShadowListRow& row);

struct ShadowFlowRow {
  std::string packet;  // as explain takes it; empty: its headers are not understood
  std::string running, candidate;
  uint64_t frames = 0;  // that were sampled
  int64_t at = 0;       // the last one, Unix seconds
};
void members(Fields& f, ShadowFlowRow& row);

struct ShadowTargetRow {
  std::string socket;
  bool acknowledged = false;  // it judges by the candidate
  int64_t since = 0;          // Unix seconds; 0: it does not, and did not
  uint64_t packets = 0;
  std::optional<double> cycles, nanoseconds;  // a packet
  ShadowDifference difference;
  std::string error;
};
void members(Fields& f, ShadowTargetRow& row);

struct ShadowAnswer {
  bool ok = true;
  bool on = false;
  std::string file;
  uint32_t one_in = 0;
  int64_t at = 0;
  wire::Generation candidate, beside, generation;
  std::string digest;
  uint64_t entries = 0, snapshot_bytes = 0;
  uint64_t packets = 0, bytes = 0;
  ShadowDifference difference;
  std::vector<ShadowListRow> lists;
  std::vector<ShadowFlowRow> flows;
  uint64_t lost = 0;
  std::vector<ShadowTargetRow> targets;
  std::string ended;
  uint64_t errors = 0, warnings = 0;
  std::vector<Diagnostic> diagnostics;
  std::string error;
};
void members(Fields& f, ShadowAnswer& answer);

struct PromoteAnswer {
  ReloadAnswer reload;
  std::string judged_digest, enforced_digest, overlay_digest;
  std::string notice;
};
void members(Fields& f, PromoteAnswer& answer);

// Adds what a target told. Rows of lists and reasons are found by their names.
void add(ShadowAnswer& answer, const std::string& socket, bool acknowledged, const std::optional<wire::Shadow>& told,
         const std::string& error);
// "drop by list c2", "pass by default"
std::string credit_text(const wire::ShadowCredit& credit);
std::string digest_text(const std::array<uint64_t, 2>& digest);  // 32 hexadecimal digits

}  // namespace weir::control
