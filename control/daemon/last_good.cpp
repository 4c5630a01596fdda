#include <fmt/format.h>

#include <ctime>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"
#include "control/compile/plan/plan.h"
#include "control/compile/prove/bits_rate.h"
#include "control/daemon/maker.h"
#include "control/lists/book/disk.h"
#include "filter/format/rules.h"

// The last good, which outlives a restart: kept after each publication, and loaded at the start.
namespace weir::control {

namespace {

// The generation whose book is the policy content of this one; 0: not known.
uint64_t recorded_base(wire::Generation generation, Journal& journal) {
  const auto record = journal.generations().find(generation);
  return record && *record ? (*record)->base : 0;
}

bool is_of_base(wire::Generation generation, uint64_t base, Journal& journal) {
  return base != 0 && (generation.number == base || recorded_base(generation, journal) == base);
}

}  // namespace

// The last good, and who is to have it.
Result<void> Maker::keep(const Running& next, const std::vector<TargetSpec>& targets) {
  if (const Result<void> kept = keep_in_force(targets); !kept) {
    log::error("who enforces is not kept beside the last good", {{"error", kept.error()}});
  }
  Result<void> saved = store_.save(*next.publication);
  if (saved) kept_ = next.publication->generation;
  return saved;
}

// A newer generation is kept already: its job came first.
static bool is_behind(wire::Generation generation, wire::Generation kept) {
  return generation.epoch == kept.epoch && generation.number < kept.number;
}

Result<void> Maker::keep_book(const Running& running) {
  const wire::Generation generation = running.publication->generation;
  if (is_behind(generation, kept_book_)) return {};
  Result<void> saved;
  const Result<void> had_memory = with_memory([&] {
    const std::string book = write_book(*running.book);
    saved = store_.save_book(generation, std::as_bytes(std::span(book)));
  });
  if (had_memory && saved) kept_book_ = generation;
  return had_memory ? saved : had_memory;
}

// Kept with the last good, for a start on a policy that cannot be read.
Result<void> Maker::keep_in_force(const std::vector<TargetSpec>& targets) {
  InForce now{settings_.config, targets};
  if (in_force_ != now) {
    if (Result<void> written = write_in_force(store_.state_dir(), now); !written) return written;
    in_force_ = std::move(now);
  }
  if (settings_.state_dir) return {};
  return remember_state_dir(settings_.default_state_dir, settings_.config, store_.state_dir());
}

// Error: why it cannot be used.
Result<std::shared_ptr<const Running>> Maker::load_last_good() {
  Result<std::optional<Publication>> loaded = store_.load();
  if (!loaded) return Error{"the last good cannot be used: " + loaded.error()};
  if (!*loaded) return Error{"there is no last good in " + store_.state_dir()};
  if (last_in_force_ && last_in_force_->config != settings_.config) {
    return Error{fmt::format("the last good in {} is that of {}: give {} its own state_dir, or --state-dir",
                             store_.state_dir(), last_in_force_->config, settings_.config)};
  }
  auto running = std::make_shared<Running>();
  auto publication = std::make_shared<Publication>(std::move(**loaded));
  running->snapshot = std::make_shared<OpenSnapshot>(publication);
  auto base = std::make_shared<Base>();
  base->publication = publication->base != nullptr ? publication->base : publication;
  base->snapshot = publication->base != nullptr ? std::make_shared<OpenSnapshot>(publication->base) : running->snapshot;
  const Result<const filter::SnapshotView*> opened = base->snapshot->view();
  if (!opened) return Error{"the last good cannot be used: " + opened.error()};
  running->stands_on = std::move(base);
  const filter::SnapshotView* view = *opened;
  load_book(publication->generation, *running);
  running->lists = running->book->empty() ? details_of(*view) : details_of(*running->book);
  running->report.snapshot_bytes = publication->size_bytes;
  if (publication->base != nullptr) running->report.snapshot_bytes += publication->base->size_bytes;
  running->report.longest_chain = filter::longest_chain(view->residuals());
  for (const ListDetails& list : running->lists) running->report.entries += list.entries;
  running->report.shapes = describe_filters(*view);
  for (ShapeReport& shape : running->report.shapes) shape.why = "as in the last good snapshot";
  if (publication->base != nullptr) {
    if (const auto overlay = running->snapshot->view(); overlay) running->overlay.shapes = describe_filters(**overlay);
  }
  for (GateReport& gate : describe_gates(view->header())) {
    gate.why = "as in the last good snapshot";
    running->report.gates.push_back(std::move(gate));
  }
  running->published_at = unix_now();
  running->from_last_good = true;
  running->publication = std::move(publication);
  return std::shared_ptr<const Running>(std::move(running));
}

// Without it, a feed that is refused has no former content, and `explain` names no file and line. Not every change of
// the journal writes it anew: then it is of a generation before, and the journal tells the rest. After a crash between
// snapshot and book it is of another reload: feeds are compared with it all the same.
void Maker::load_book(wire::Generation generation, Running& running) {
  running.book = std::make_shared<const Book>();
  wire::Generation found;
  const Result<Store::Bytes> bytes = Store::book_in(store_.state_dir(), &found);
  Result<Book> book = bytes ? read_book(bytes->bytes()) : Result<Book>(Error{bytes.error()});
  if (!book) {
    log::warning("no entries of the last good: refused feeds have none, and `explain` names no files and lines",
                 {{"error", book.error()}});
    return;
  }
  bool is_its_own = found == generation;
  const bool is_older = found.epoch == generation.epoch && found.number < generation.number;
  const Result<Journal*> journal = is_its_own ? Result<Journal*>(nullptr) : this->journal();
  if (!is_its_own && is_older && journal && (*journal)->is_reset()) {
    log::warning("the book on disk is an older one: what was added to lists since then is not known",
                 {{"generation", found.number}});
    is_its_own = true;
  } else if (!is_its_own && journal && is_of_base(found, recorded_base(generation, **journal), **journal)) {
    add_journal(*book, nullptr);
    is_its_own = true;
  }
  auto loaded = std::make_shared<const Book>(std::move(*book));
  if (is_its_own) {
    running.book = std::move(loaded);
    return;
  }
  log::warning("the book on disk belongs to another generation: `explain` names no files and lines",
               {{"generation", found.number}, {"refused_feeds_keep_it", is_older}});
  if (is_older) running.feeds_before = std::move(loaded);
}

Result<void> Maker::keep_change(const Running& running, bool is_new_base) {
  const wire::Generation generation = running.publication->generation;
  if (is_behind(generation, kept_)) return {};
  if (is_new_base) return keep_book(running);  // make() has saved its snapshot, or failed
  if (kept_ == generation) return {};
  const Result<void> saved = store_.save(*running.publication);
  if (saved) kept_ = generation;
  return saved;
}

Result<void> Maker::keep_again(const Running& running, const std::vector<TargetSpec>& targets) {
  Result<void> saved = numbers_.save();
  // A reload that came first may have kept something newer.
  if (saved && running.publication->generation.number > kept_.number) saved = keep(running, targets);
  if (saved) saved = keep_book(running);
  return saved;
}

}  // namespace weir::control
