#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>

#include "common/log/log.h"
#include "common/memory.h"
#include "control/daemon/daemon.h"

// Lists become a publication: a whole snapshot, or an overlay of what has changed since one was built. When that has
// grown, a new base is built beside all else, and what has changed meanwhile stands on it.
namespace weir::control {

namespace {

// Every publication compiles and proves all keys of its overlay again, about 2 us each; a new base costs about 0.5 us a
// key of its own, beside all else. With k changed keys a publication the sum is least with a new base after sqrt(B /
// 2k) of them: 5 when a hundredth of a million entries is another one each time, at 100,000 keys. A publication is to
// come within 200 ms all the same, so a new base is built when this many keys have changed, and one in so many of the
// base's.
constexpr uint64_t kCompactAboveKeys = 32768, kCompactAboveShare = 32;

std::shared_ptr<Publication> publication_of(Compiled& compiled) {
  auto publication = std::make_shared<Publication>();
  publication->generation = compiled.generation;
  publication->snapshot = std::move(compiled.snapshot);
  publication->size_bytes = compiled.size_bytes;
  publication->digest = compiled.digest;
  return publication;
}

}  // namespace

std::shared_ptr<const Base> whole_of(Compiled& compiled, std::shared_ptr<const Policy> policy) {
  auto base = std::make_shared<Base>();
  base->publication = publication_of(compiled);
  base->snapshot = std::make_shared<OpenSnapshot>(base->publication);
  base->policy = std::move(policy);
  base->report = std::move(compiled.report);
  return base;
}

// The publication of what is to run next, whose policy and lists are there, under the next number, which is not given
// out yet: the one place in which lists become a publication. old: what runs; null: nothing does.
Result<void> Daemon::make_publication(Running& next, const Running* old, Make make, Progress* progress) {
  next.memory_limit = next.policy->memory_bytes;
  if (make == Make::overlay && old != nullptr && old->stands_on != nullptr && old->stands_on->policy != nullptr) {
    const Result<bool> made = make_overlay(next, old->stands_on);
    if (!made) return Error{made.error()};
    if (*made) return {};
  }
  Result<Compiled> compiled = compile_or_copy(next, old, progress);
  if (!compiled) return Error{compiled.error()};
  next.stands_on = whole_of(*compiled, next.policy);
  next.publication = next.stands_on->publication;
  next.snapshot = next.stands_on->snapshot;
  next.report = next.stands_on->report;
  return {};
}

// False: it takes a whole snapshot.
Result<bool> Daemon::make_overlay(Running& next, const std::shared_ptr<const Base>& base) {
  if (settings_digest(*next.policy) != settings_digest(*base->policy)) return false;
  const Result<const filter::SnapshotView*> below = base->snapshot->view();
  if (!below) return Error{below.error()};
  Result<Overlaid> made =
      compile_overlay(*next.policy, {**below, base->publication->digest, base->policy->lists}, numbers_.next());
  if (!made) return Error{made.error()};
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
Result<bool> Daemon::make_promotion(Running& next, const Running* old, const Shadowing& promoted) {
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

// After a publication: is its overlay large enough for a new base? It is built from what runs now.
void Daemon::compact_when_due() {
  const OverlayReport& overlay = running_->overlay;
  if (running_->publication->base == nullptr) return;
  if (overlay.keys < std::max(kCompactAboveKeys, overlay.of_base / kCompactAboveShare)) return;
  if (!intents_.begin_base()) return;
  worker_.submit([this, policy = running_->policy] {
    const wire::Generation number = numbers_.next();
    const Result<void> given = numbers_.commit();
    if (!given) log::warning("the number of a new base is not on disk", {{"error", given.error()}});
    mailbox_.post([this, policy, number] {
      if (is_stopping()) return;
      builder_.submit([this, policy, number] {
        std::shared_ptr<const Base> base;
        Result<void> made;
        const Result<void> had_memory = with_memory([&] {
          Result<Compiled> compiled = compile(*policy, number, options_.build_threads);
          if (compiled) {
            base = whole_of(*compiled, policy);
            (void)base->snapshot->view();  // which walks all of it: here, so that nobody waits for it later
          } else {
            made = Error{compiled.error()};
          }
        });
        malloc_trim(0);
        const std::string error = !had_memory ? had_memory.error() : made ? "" : made.error();
        mailbox_.post([this, base, error] {
          if (base == nullptr) log::error("no new base for the overlay", {{"error", error}});
          intents_.take_base(base);
        });
      });
    });
  });
}

}  // namespace weir::control
