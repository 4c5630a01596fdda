#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/digest.h"
#include "control/compile/compile.h"
#include "filter/read/view.h"

// What has changed since a snapshot was built becomes an overlay on it (filter/read/overlay.h): the book's difference,
// key by key, without looking at what did not change.
namespace weir::control {

// What an overlay stands on: a snapshot as it was published, without an overlay, and the lists that it was built from.
struct OverlayBase {
  const filter::SnapshotView& snapshot;
  Digest digest = {};  // of its bytes
  const Book& book;
};

// Of an overlay.
struct OverlayReport {
  uint64_t keys = 0, of_base = 0;   // in its tables, and in those of the base
  uint64_t added = 0, removed = 0;  // entries, since the base
  std::vector<ShapeReport> shapes;  // as in its header
  std::vector<PhaseTime> phases;
};

// Past so many keys an overlay is no small change any more: every packet that a gate lets through pays for it, and
// every publication compiles all of it again. A new base is built instead.
constexpr uint64_t most_overlay_keys(uint64_t keys_of_base) {
  constexpr uint64_t kLeastLimit = 1 << 16, kShare = 8;
  return keys_of_base / kShare > kLeastLimit ? keys_of_base / kShare : kLeastLimit;
}

struct Overlaid {
  Compiled compiled;  // its report is empty but for the bytes
  OverlayReport overlay;
  std::string needs_rebuild;  // why no overlay can say it, or none should; empty: compiled is there
};

// Errors: a canary would drop, or a proof failed: a new base would not mend the first.
// The caller knows that the settings are those of the base (control/compile/reuse.h, settings_digest).
Result<Overlaid> compile_overlay(const Policy& policy, const OverlayBase& base, wire::Generation generation);

}  // namespace weir::control
