#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/probes.h"
#include "common/shadow.h"
#include "common/wire.h"
#include "dataplane/snapshot/ledger.h"
#include "dataplane/snapshot/saved.h"
#include "dataplane/snapshot/snapshot_slot.h"
#include "dataplane/start/state_dir.h"
#include "filter/read/receive.h"

namespace weir::dataplane {

// The receiving end of a publication (docs/operate/dataplane.md): from a message with a descriptor, or from the state
// folder, to an enforced snapshot. Whatever fails, the snapshot before it keeps enforcing; only the disk may fail: then
// what is valid is enforced all the same, and written again until it is durable. Copying, checking and writing take a
// thread of their own, which runs run(); nobody who asks something else waits for it.
class Publisher {
 public:
  static constexpr size_t kMaxWaiting = 4;  // publications, beside the one that is worked on

  // Patience. Tests shorten it.
  struct Times {
    std::chrono::milliseconds try_again{1000};                     // to write to a disk that failed
    std::chrono::milliseconds long_grace{1000}, most_grace{5000};  // a burst takes microseconds
  };
  Publisher(SnapshotSlot& slot, Ledger& ledger, const StateDir& state, std::vector<WorkerPlace> workers,
            uint64_t snapshot_memory)
      : Publisher(slot, ledger, state, std::move(workers), snapshot_memory, Times()) {}
  Publisher(SnapshotSlot& slot, Ledger& ledger, const StateDir& state, std::vector<WorkerPlace> workers,
            uint64_t snapshot_memory, Times times)
      : slot_(slot),
        ledger_(ledger),
        saved_(state),
        workers_(std::move(workers)),
        limit_bytes_(snapshot_memory / 2),
        times_(times) {}

  // Enforces the last good snapshot of the state folder. False when there is none. Before run().
  Result<bool> restore();

  // Gives the publisher's thread a publish message to answer: enforced, and durable or not, or the step that failed and
  // why. One after the other. Any thread.
  using Done = std::function<void(const wire::PublishedBody&)>;
  void publish(wire::Message message, Done done);

  // The same for a message that begins a shadow, or ends it; done is told what shadow() tells then.
  using ShadowDone = std::function<void(wire::Shadow)>;
  void shadow(wire::Message message, ShadowDone done);
  // What the shadow has counted, or the last one had, and samples that were not told yet, in ticks. Any thread.
  wire::Shadow shadow();

  void run();   // until stop()
  void stop();  // any thread; what is worked on goes on to its next step
  // run() has returned, or was never called.
  bool is_idle() const;

  // For a snapshot and its overlay: two of both must fit the configured memory at a swap.
  uint64_t limit_bytes() const { return limit_bytes_; }

  // What is told of what is enforced. Any thread.
  struct Enforced {
    filter::Enforced what;
    size_t snapshot_bytes = 0;  // of the base
    size_t overlay_bytes = 0;
    uint64_t overlay_keys = 0;
    bool huge = false;  // the base
    bool durable = true;
    std::string disk_error;   // why not
    wire::Generation shadow;  // the candidate that judges beside it; none: {0,0}
  };
  Enforced enforced() const;
  struct Counts {
    wire::Generation generation;
    std::vector<wire::ListStats> lists;  // of all snapshots so far, by list name
  };
  Counts counts() const;
  // What was asked of the filters of what is enforced. One thread.
  wire::Probes probes() const;

 private:
  struct Job {
    wire::Message message;
    Done done;
    ShadowDone shadow_done;  // of a shadow, instead
  };
  bool enqueue(Job& job);  // false: there is no room
  wire::PublishedBody answer(const wire::Message& message);
  std::optional<filter::Refusal> try_publish(const wire::Message& message, wire::PublishedBody& answer);
  std::optional<filter::Refusal> open(const filter::Received& received, std::unique_ptr<Snapshot>& opened) const;
  std::optional<filter::Refusal> copy(const Mapping& bytes, wire::Generation generation, const Digest& digest,
                                      std::shared_ptr<const Copies>& copied) const;
  // False: some worker does not let the former snapshot go. It is kept until it does.
  bool exchange(std::unique_ptr<Snapshot> next, const Result<void>& saved);
  bool wait_for_grace();
  bool let_former_go();
  // In shadow.cpp.
  wire::Shadow answer_shadow(const wire::Message& message);
  std::optional<filter::Refusal> begin_shadow(const wire::Message& message, const wire::ShadowRequest& request);
  // False: some worker does not let it go yet.
  bool end_shadow(const std::string& why);
  void make_room(const filter::Received& received);
  // The candidate that judges as a shadow is this base. Null: it is not.
  std::shared_ptr<const Copies> shadow_as_base(const filter::Enforced& what) const;
  void stand_beside(const Snapshot& next);
  void take_past(ShadowRun& former);
  void set_durable(const Result<void>& saved);
  void save_again();
  bool is_stopping() const;

  SnapshotSlot& slot_;
  Ledger& ledger_;
  Saved saved_;  // of the thread that runs run() alone
  std::vector<WorkerPlace> workers_;
  uint64_t limit_bytes_;
  const Times times_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopping_ = false, running_ = false;

  mutable std::mutex swap_;           // guards what is current, what is told of it, and the ledger; held for moments
  std::unique_ptr<Snapshot> former_;  // not current any more, and read by workers, or counted in the ledger, not yet
  std::unique_ptr<ShadowRun> former_shadow_;  // likewise, not counted in past_shadow_ yet
  wire::Shadow past_shadow_;                  // what tells of the shadow, and what it counted before the run that lasts
  bool durable_ = true;
  std::string disk_error_;
};

}  // namespace weir::dataplane
