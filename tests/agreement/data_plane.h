#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/result.h"
#include "control/enforce/publish/store.h"
#include "dataplane/snapshot/publish.h"

// What of a data plane takes publications: receives, checks, copies, joins gates, exchanges, keeps, and counts. One
// worker, which is the caller's thread, and no ports.
namespace weir::agreement {

class DataPlane {
 public:
  // Its state folder is one of its own, in memory where it can, which goes with it.
  static Result<std::unique_ptr<DataPlane>> open();
  ~DataPlane();
  DataPlane(const DataPlane&) = delete;

  // Error: it is refused, and why.
  Result<void> publish(const control::Publication& publication);
  // As after its end and another start: what is enforced comes from its state folder. Error: nothing can be enforced.
  Result<void> restart();

  // What is enforced, as the worker has it, until leave(). Something is.
  const dataplane::Snapshot& enter();
  void leave() { running_->slot->offline(0); }
  // By list: of all publications so far, restarts between them or not; those of the one that is enforced in its order.
  std::vector<wire::ListStats> lists() const { return former_.totals(running_->publisher.counts().lists); }

 private:
  // From start to end.
  struct Running {
    Running(const dataplane::StateDir& state, std::unique_ptr<dataplane::SnapshotSlot> of_workers);
    ~Running();
    const std::unique_ptr<dataplane::SnapshotSlot> slot;
    dataplane::Ledger ledger;
    dataplane::Publisher publisher;
    std::thread thread;  // of the publisher, once it runs
  };
  DataPlane(std::string folder, dataplane::StateDir state) : folder_(std::move(folder)), state_(std::move(state)) {}
  Result<void> start();

  const std::string folder_;
  dataplane::StateDir state_;
  std::unique_ptr<Running> running_;
  dataplane::Ledger former_;  // what was counted before restarts
};

}  // namespace weir::agreement
