#include "control/daemon/maker.h"

#include <algorithm>

#include "common/clock.h"
#include "common/log/log.h"
#include "common/memory.h"

// The maker's numbers and its journal.
namespace weir::control {

Maker::Maker(Store& store, GenerationFile numbers, std::optional<Journal> journal, std::optional<InForce> in_force,
             Settings settings, Progress& progress)
    : store_(store),
      settings_(std::move(settings)),
      progress_(progress),
      history_(store.state_dir()),
      numbers_(std::move(numbers)),
      epoch_(numbers_.last().epoch),
      journal_(std::move(journal)),
      last_in_force_(std::move(in_force)),
      in_force_(last_in_force_) {
  if (journal_) open_journal_ = &*journal_;
}

wire::Generation Maker::give_number(const char* what) {
  const wire::Generation number = numbers_.next();
  if (const Result<void> given = numbers_.commit(); !given) {
    log::warning("a number is not on disk", {{"of", what}, {"error", given.error()}});
  }
  return number;
}

std::pair<std::shared_ptr<const Policy>, wire::Generation> Maker::number_candidate(Policy policy, const Book& before) {
  const Result<Journal*> journal = this->journal();
  if (journal && (*journal)->is_in_lists()) {
    add_journal(policy.lists, &before);
  } else {
    log::warning("the candidate is without what was added to lists: the journal could not be read");
  }
  policy.gates_for = kinds_of(targets_of(policy));
  return {std::make_shared<const Policy>(std::move(policy)), give_number("a candidate")};
}

Result<Journal> Maker::open_journal(const std::string& state_dir, GenerationFile& numbers) {
  Result<Journal> opened = Journal::open(state_dir);
  if (!opened) return opened;
  if (!opened->notice().empty()) log::error("the journal was damaged", {{"text", opened->notice()}});
  const auto newest = opened->generations().newest(numbers.last().epoch, 1);
  if (newest && !newest->empty()) numbers.pass({numbers.last().epoch, newest->front().number});
  return opened;
}

Result<Journal*> Maker::journal() {
  if (journal_) return &*journal_;
  Result<Journal> opened = open_journal(store_.state_dir(), numbers_);
  if (!opened) return Error{opened.error()};
  journal_ = std::move(*opened);
  open_journal_ = &*journal_;
  return &*journal_;
}

Result<Journal*> Maker::journal_to_ask() const {
  if (Journal* const journal = open_journal_) return journal;
  return Error{"the journal is not open: `controlctl reload` tries to open it, and tells why it cannot"};
}

// Puts what the journal holds into the lists. before: of what runs or ran; null: nothing did. A journal
// that cannot be read takes nothing from anybody.
void Maker::add_journal(Book& book, const Book* before) {
  const auto now = unix_now();
  const Result<Journal*> journal = this->journal();
  if (!journal) log::error("no journal: what was added to lists stays as it was", {{"error", journal.error()}});
  if (journal && before != nullptr && (*journal)->take_reset()) {
    Result<void> restored = (*journal)->begin({});
    if (restored) restored = restore(*before, now, **journal);
    if (restored) restored = (*journal)->commit();
    if (!restored) (*journal)->roll_back();
    restored ? log::error("the journal begins with what the last good had of it; who and why is lost")
             : log::error("the journal begins empty", {{"error", restored.error()}});
  }
  for (List& list : book) {
    ListDraft added;
    if (list.dynamic) {
      Result<ListDraft> kept = journal ? journal_of(list, now, **journal) : Result<ListDraft>(Error{journal.error()});
      if (!kept && before != nullptr) {
        const auto was =
            std::find_if(before->begin(), before->end(), [&](const List& l) { return l.name == list.name; });
        if (was != before->end()) kept = journal_part(*was->as_written());
      }
      if (kept) added = std::move(*kept);
    }
    const std::shared_ptr<const Entries> written = with_journal(list.as_written(), std::move(added));
    if (written != list.as_written()) list.hold(written);
  }
  if (journal) (*journal)->set_in_lists();
}

}  // namespace weir::control
