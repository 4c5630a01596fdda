#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/result.h"
#include "control/publish/store.h"
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

  // What is enforced, as the worker has it, until leave(). Something is.
  const dataplane::Snapshot& enter();
  void leave() { slot_->offline(0); }
  // By list: of all publications so far; those of the one that is enforced in its order.
  std::vector<wire::ListStats> lists() const { return publisher_.counts().lists; }

 private:
  DataPlane(std::string folder, dataplane::StateDir state, std::unique_ptr<dataplane::SnapshotSlot> slot);

  const std::string folder_;
  dataplane::StateDir state_;
  std::unique_ptr<dataplane::SnapshotSlot> slot_;
  dataplane::Ledger ledger_;
  dataplane::Publisher publisher_;
  std::thread thread_;  // of the publisher
};

}  // namespace weir::agreement
