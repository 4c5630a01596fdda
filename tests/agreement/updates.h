#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/agreement/agreement.h"

// Versions of a real feed, one after the other, as changes: they must give the verdicts and counters of snapshots that
// are built anew for each version.
namespace weir::agreement {

struct UpdateTotals {
  Compared compared;                                   // by the planes that take changes
  uint64_t versions = 0;                               // that were compared
  uint64_t changes = 0;                                // entries, from version to version
  uint64_t entries = 0;                                // of the last version, in all lists
  uint64_t overlays = 0, bases = 0, overlay_keys = 0;  // keys: of the largest overlay
  uint64_t disagreements = 0;
};

// files: of one list; its versions in their order. xdp: one that takes changes and one for snapshots; null: the data
// plane alone. Returns what differs first, which is where it ends.
std::optional<std::string> run_updates(const std::vector<std::string>& files, XdpPlane* changing, XdpPlane* anew,
                                       UpdateTotals& totals);

}  // namespace weir::agreement
