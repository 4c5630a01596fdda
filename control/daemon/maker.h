#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/progress.h"
#include "control/daemon/intents.h"
#include "control/enforce/publish/generation.h"
#include "control/enforce/publish/history_files.h"
#include "control/enforce/publish/in_force.h"
#include "control/enforce/publish/store.h"
#include "control/lists/journal/journal.h"

namespace weir::control {

// The maker makes publications, and owns the disk: numbers of generations, journal, last good and history. Only its
// thread calls it, but for functions that say otherwise. It blocks on nothing but the disk.
class Maker {
 public:
  struct Settings {
    std::string config;                    // the policy file, absolute
    std::optional<std::string> state_dir;  // instead of the policy's
    std::string default_state_dir;
    std::vector<TargetSpec> targets;  // instead of the policy's
    unsigned build_threads = 1;       // of large filters
  };
  // store, progress: the caller's, and outlive it. progress: of the reload that is made.
  Maker(Store& store, GenerationFile numbers, std::optional<Journal> journal, std::optional<InForce> in_force,
        Settings settings, Progress& progress);
  Maker(const Maker&) = delete;

  // Numbers of changes are in the journal alone: `numbers` goes past them.
  static Result<Journal> open_journal(const std::string& state_dir, GenerationFile& numbers);

  // A reload that was read: compiles it, and brings its number and the last good to disk. job.next stays null when a
  // step fails; only the disk may fail after it is set. old: what runs; null: nothing does. before: its lists, or those
  // of the last good.
  void make(ReloadJob& job, const Running* old, const Book* before);
  // It is published: keeps its book, its history, and what it changed. Failures are in job.saved, or logged.
  void record(ReloadJob& job);
  // Changes of entries: journal, overlay, number. Those that cannot be made say why, and leave nothing behind.
  void make(ChangeBatch& batch, const Running& old);
  // The bytes of an overlay, or the book of a new base. Nothing is written when something newer is kept.
  Result<void> keep_change(const Running& running, bool is_new_base);
  // Saves again: the number, the last good and its book.
  Result<void> keep_again(const Running& running, const std::vector<TargetSpec>& targets);
  // Unless that of a newer generation is there.
  Result<void> keep_book(const Running& running);

  // The policy with what was added to its lists, and a number for its snapshot. before: the book of what runs.
  std::pair<std::shared_ptr<const Policy>, wire::Generation> number_candidate(Policy policy, const Book& before);
  // For a new base.
  wire::Generation give_number(const char* what);
  // An enforcer has seen this number: later ones are greater.
  void pass(wire::Generation seen) { numbers_.pass(seen); }

  // Before its thread has work: what was enforced last. Error: why it cannot be used.
  Result<std::shared_ptr<const Running>> load_last_good();
  // Before its thread has work, of former runs: the base that a rollback published, and the one to go back to unless
  // somebody confirms; 0: none.
  struct Notes {
    uint64_t rolled_back_to = 0, unconfirmed = 0;
  };
  Notes notes();
  // Before its thread has work: the newest base, up to this one, whose content is in the history; 0: none is.
  uint64_t newest_kept(uint64_t up_to);
  // It stays.
  Result<void> confirm(wire::Generation stays);

  // Any thread. Once the journal is open it stays so.
  Result<Journal*> journal_to_ask() const;
  const HistoryFiles& history() const { return history_; }
  uint64_t epoch() const { return epoch_; }

 private:
  // Whether an overlay will do: for what changes by itself, and often.
  enum class Make { whole, overlay };
  Result<void> make_publication(Running& next, const Running* old, Make make);
  Result<void> make_publication_for(const ReloadCause& cause, Running& next, const Running* old);
  Result<bool> make_overlay(Running& next, const std::shared_ptr<const Base>& base);
  Result<bool> make_promotion(Running& next, const Running* old, const Shadowing& promoted);
  Result<Compiled> compile_or_copy(const Running& next, const Running* old);
  void make_reload(ReloadJob& job, const Running* old, const Book* before);
  // Holds it to its limits. Error: it must not be published.
  Result<void> keep_to_limits(ReloadJob& job, std::shared_ptr<Running>& next, const Running& old);
  Result<void> note(const ReloadJob& job, const Running* old);
  void record_generation(const ReloadJob& job);
  std::string notice_of_promotion(const Shadowing& promoted) const;
  Result<void> make_changes(ChangeBatch& batch, const Running& old, Journal& journal);
  Result<Journal*> journal();
  void add_journal(Book& book, const Book* before);
  Result<void> keep(const Running& next, const std::vector<TargetSpec>& targets);
  // Those of controld's options, else the policy's.
  const std::vector<TargetSpec>& targets_of(const Policy& policy) const {
    return settings_.targets.empty() ? policy.targets : settings_.targets;
  }
  Result<void> keep_in_force(const std::vector<TargetSpec>& targets);
  void load_book(wire::Generation generation, Running& running);

  Store& store_;
  const Settings settings_;
  Progress& progress_;
  const HistoryFiles history_;
  GenerationFile numbers_;
  const uint64_t epoch_;
  std::optional<Journal> journal_;           // empty: not opened yet, or it cannot be
  std::atomic<Journal*> open_journal_ = {};  // the same, for questions of other threads
  std::optional<InForce> last_in_force_;     // as on disk at the start
  std::optional<InForce> in_force_;          // as on disk
  wire::Generation kept_;                    // the last good on disk, of this process
  wire::Generation kept_book_;               // its book
};

}  // namespace weir::control
