#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/compile/compile.h"
#include "control/compile/overlay.h"
#include "control/compile/preview/radius.h"
#include "control/compile/preview/reservoir.h"
#include "control/compile/reuse.h"
#include "control/enforce/publish/open_snapshot.h"
#include "control/tell/answer/list.h"

// The generation that runs.
namespace weir::control {

// A whole snapshot that overlays stand on, and its policy.
struct Base {
  std::shared_ptr<const Publication> publication;
  std::shared_ptr<const OpenSnapshot> snapshot;
  std::shared_ptr<const Policy> policy;  // null: of a last good
  CompileReport report;
};

// The generation that is published now.
struct Running {
  std::shared_ptr<const Publication> publication;
  std::shared_ptr<const OpenSnapshot> snapshot;  // to look into the publication
  std::shared_ptr<const Base> stands_on;         // the publication's base, or itself; null: not known
  OverlayReport overlay;                         // of an overlay
  std::shared_ptr<const Policy> policy;          // null: from_last_good
  std::shared_ptr<const Book> book;              // from_last_good: empty when it is not on disk
  // Null: book. from_last_good: that of an earlier generation, when a crash came before this one's was on disk.
  std::shared_ptr<const Book> feeds_before;
  std::optional<InputsDigest> inputs;  // of the snapshot; empty: not known, or it depends on the time
  std::vector<ListDetails> lists;
  uint64_t base = 0;  // the generation whose book holds its policy content, before what the journal adds; 0: not known
  CompileReport report;  // from_last_good: phases and reasons are empty
  // The policy file's text at its reload; reloads that feeds cause read it again. Null: not known (last good).
  std::shared_ptr<const std::string> policy_text;
  std::string policy_path;           // of a policy that was promoted, or is a fleet's; empty: the configured one
  std::vector<FetchedFeed> fetched;  // of the policy
  uint64_t memory_limit = 0;         // filter.memory in bytes; 0: not known (last good)
  int64_t published_at = 0;          // unix seconds
  bool from_last_good = false;
};

// compiled is moved from.
std::shared_ptr<const Base> whole_of(Compiled& compiled, std::shared_ptr<const Policy> policy);

std::shared_ptr<Publication> publication_of(Compiled& compiled);

// Fills all but publication, snapshot and report. The policy's lists are complete.
std::shared_ptr<Running> running_of(std::shared_ptr<const Policy> policy);

// A refused feed keeps its content of this book.
inline const std::shared_ptr<const Book>& feeds_before(const Running& running) {
  return running.feeds_before != nullptr ? running.feeds_before : running.book;
}

// The snapshots of what runs. They live as long as it.
Result<Enforcing> enforcing_of(const Running& running);

Result<Radius> radius_between(const Enforcing& before, const Running& next, const SeenTraffic& traffic,
                              const std::set<std::string>& accepted = {});

}  // namespace weir::control
