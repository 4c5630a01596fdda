#include <fmt/format.h>

#include <algorithm>

#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/maker.h"

// Lists become a publication: a whole snapshot, or an overlay of what has changed since one was built. When that has
// grown, a new base is built beside all else, and what has changed meanwhile stands on it.
namespace weir::control {

// The publication of what is to run next, whose policy and lists are there, under the next number, which is not given
// out yet: the one place in which lists become a publication. old: what runs; null: nothing does.
Result<void> Maker::make_publication(Running& next, const Running* old, Make make) {
  next.memory_limit = next.policy->memory_bytes;
  if (make == Make::overlay && old != nullptr && old->stands_on != nullptr && old->stands_on->policy != nullptr) {
    const Result<bool> made = make_overlay(next, old->stands_on);
    if (!made) return made.failure();
    if (*made) return {};
  }
  Result<Compiled> compiled = compile_or_copy(next, old);
  if (!compiled) return compiled.failure();
  next.stands_on = whole_of(*compiled, next.policy);
  next.publication = next.stands_on->publication;
  next.snapshot = next.stands_on->snapshot;
  next.report = next.stands_on->report;
  return {};
}

// False: it takes a whole snapshot.
Result<bool> Maker::make_overlay(Running& next, const std::shared_ptr<const Base>& base) {
  if (settings_digest(*next.policy) != settings_digest(*base->policy)) return false;
  const Result<const filter::SnapshotView*> below = base->snapshot->view();
  if (!below) return below.failure();
  Result<Overlaid> made =
      compile_overlay(*next.policy, {**below, base->publication->digest, base->policy->lists}, numbers_.next());
  if (!made) return made.failure();
  if (!made->needs_rebuild.empty()) {
    log::info("no overlay, but a new snapshot", {{"why", made->needs_rebuild}});
    return false;
  }
  if (made->compiled.size_bytes + base->publication->size_bytes > next.memory_limit) {
    log::info("no overlay, but a new snapshot", {{"why", "base and overlay together exceed filter.memory"}});
    return false;
  }
  const std::shared_ptr<Publication> publication = publication_of(made->compiled);
  publication->base = base->publication;
  next.stands_on = base;
  next.publication = publication;
  next.snapshot = std::make_shared<OpenSnapshot>(publication);
  next.overlay = made->overlay;
  next.report = base->report;
  next.report.phases = made->overlay.phases;
  next.report.snapshot_bytes = base->publication->size_bytes + publication->size_bytes;
  next.report.entries = 0;
  for (const List& list : next.policy->lists) next.report.entries += list.entries();
  return true;
}

// The candidate as it was judged: itself where nothing was published or changed since, else below an overlay. False: it
// takes another snapshot.
Result<bool> Maker::make_promotion(Running& next, const Running* old, const Shadowing& promoted) {
  const std::shared_ptr<const Base>& base = promoted.base;
  next.memory_limit = next.policy->memory_bytes;
  const bool is_newest = old != nullptr && numbers_.last() == base->publication->generation &&
                         old->publication->generation.number < base->publication->generation.number;
  const std::optional<InputsDigest> judged = inputs_digest(*base->policy);
  if (!is_newest || !judged || next.inputs != judged) return make_overlay(next, base);
  next.stands_on = base;
  next.publication = base->publication;
  next.snapshot = base->snapshot;
  next.report = base->report;
  next.report.phases.clear();
  return true;
}

}  // namespace weir::control
