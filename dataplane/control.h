#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "common/wire.h"
#include "dataplane/ledger.h"
#include "dataplane/publish.h"
#include "dataplane/server.h"
#include "dataplane/snapshot_slot.h"
#include "dataplane/state_dir.h"
#include "dataplane/worker.h"

namespace weir::dataplane {

// What the control thread does with a request. One thread uses it.
class Control {
 public:
  struct Parts {
    std::vector<Worker>& workers;
    Switches& switches;
    SnapshotSlot& slot;
    Publisher& publisher;
    const Ledger& ledger;
    const StateDir& state;
    std::function<uint64_t()> rx_missed;  // frames that the ports lost so far
    uint32_t n_ports;
    std::string_view isa;
  };
  explicit Control(const Parts& parts);

  Answer answer(const wire::Message& request);
  wire::Stats stats() const;

 private:
  Answer publish(const wire::Message& request);
  Answer bypass(const wire::Message& request);
  Answer status(wire::Type type) const;
  Answer samples(const wire::Message& request);
  wire::Totals totals() const;

  Parts parts_;
  uint64_t start_time_unix_;
  uint64_t samples_told_ = 0;
};

}  // namespace weir::dataplane
