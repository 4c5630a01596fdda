#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/shadow.h"
#include "control/compile/compile.h"
#include "control/compile/preview/lists.h"
#include "control/compile/preview/over_limit.h"
#include "control/compile/preview/radius.h"
#include "control/lists/book/difference.h"
#include "control/lists/journal/change.h"
#include "control/lists/journal/generations.h"
#include "control/tell/answer/parts.h"

// An answer tells what a change of the policy did, would do, or did before.
namespace weir::control {

// ------------------------------------------------------------------------------------------- reload, bypass, detach

void members(Fields& f, ListChange& change);
void members(Fields& f, Share& share);
void members(Fields& f, OverLimit& over);

struct ReloadAnswer {
  bool ok = false;              // published, stored, and acknowledged by every target
  wire::Generation generation;  // the one that is published afterwards: after a failure, the old one
  int64_t at = 0;               // Unix seconds, when it began
  std::string cause;            // "start", "asked for", "SIGHUP", which feeds changed, why it went back
  std::vector<PhaseTime> phases;
  double total_ms = 0;
  uint64_t entries = 0, snapshot_bytes = 0;
  std::vector<ListChange> changes;     // since the generation before
  std::vector<TargetOutcome> targets;  // empty when nothing was published
  std::vector<RefusedFeed> refused;    // their lists keep what they had
  std::vector<OverLimit> over_limits;  // why it was refused, or was not although
  bool may_pass = false;               // not told: why it failed may pass by itself
  Diagnostics diagnostics;
  std::string error;   // why not; empty when diagnostics say it
  std::string notice;  // PromoteAnswer tells it: what the next reload would change
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

// -------------------------------------------------------------------------------------------------- add, del, flush

void members(Fields& f, ChangeCounts& counts);

struct ChangeAnswer {
  bool ok = false;  // in the journal, and enforced and on disk at every target
  std::string list;
  wire::Generation generation;  // in which it is; none: nothing was changed
  ChangeCounts counts;
  uint64_t entries = 0;  // that the journal holds of the list now
  double total_ms = 0;
  std::vector<TargetOutcome> targets;
  std::string notice;  // add to a drop list: why nothing of the list drops now; empty: it does
  std::string error;   // why not
};
void members(Fields& f, ChangeAnswer& answer);

// ------------------------------------------------------------------------------------------------------------- plan

// The changes that a candidate would make.

struct PlanAnswer {
  bool ok = false;
  wire::Generation generation;  // that runs
  ListsPreview preview;
  SnapshotCost before, after;
  std::vector<PhaseTime> phases;  // of compiling the candidate
  double total_ms = 0;
  std::optional<Radius> radius;
  std::string why_no_radius;  // empty: it is there
  std::vector<RefusedFeed> refused;
  std::vector<OverLimit> over_limits;
  Diagnostics diagnostics;
  std::string error;  // why there is no answer; empty when diagnostics say it
};
void members(Fields& f, PlanAnswer& answer);

// ------------------------------------------------------------------------------------------------- history, confirm

struct HistoryRow : GenerationRecord {
  bool kept = false;  // rollback can publish it again
};
void members(Fields& f, HistoryRow& row);

// The newest kMost publications, newest first.
struct HistoryAnswer {
  static constexpr size_t kMost = 200;
  wire::Generation generation;
  std::string notice;
  std::vector<HistoryRow> generations;
};
void members(Fields& f, HistoryAnswer& answer);

struct ConfirmAnswer {
  bool ok = true;
  wire::Generation generation;
};
void members(Fields& f, ConfirmAnswer& answer);

// ----------------------------------------------------------------------------------------------------------- shadow

// The answer about a shadow: a candidate that judges live packets beside the policy that runs.

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
  Diagnostics diagnostics;
  std::string error;
};
void members(Fields& f, ShadowAnswer& answer);

struct PromoteAnswer {
  ReloadAnswer reload;
  std::string judged_digest, enforced_digest, overlay_digest;
};
void members(Fields& f, PromoteAnswer& answer);

// Adds what a target told. Rows of lists and reasons are found by their names.
void add(ShadowAnswer& answer, const std::string& socket, bool acknowledged, const std::optional<wire::Shadow>& told,
         const std::string& error);
// "drop by list c2", "pass by default"
std::string credit_text(const wire::ShadowCredit& credit);
std::string digest_text(const std::array<uint64_t, 2>& digest);  // 32 hexadecimal digits

}  // namespace weir::control
