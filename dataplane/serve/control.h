#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>
#include <vector>

#include "common/telemetry.h"
#include "common/wire.h"
#include "dataplane/burst/worker.h"
#include "dataplane/serve/server.h"
#include "dataplane/snapshot/ledger.h"
#include "dataplane/snapshot/publish.h"
#include "dataplane/snapshot/snapshot_slot.h"
#include "dataplane/start/state_dir.h"

namespace weir::dataplane {

// What the control thread does with a request: answer(), from one thread. What it tells, any thread may ask.
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
    uint32_t sample_one_in = 0;
    std::function<wire::Ports()> ports = {};
  };
  explicit Control(const Parts& parts);

  Answer answer(const wire::Message& request);
  // The same on the panic switch's own socket, from a thread of its own: nothing that answer() is busy with, a
  // publication, say, holds up an order.
  Answer panic(const wire::Message& request);
  wire::StatusBody status() const;
  wire::Stats stats() const;
  wire::Ports ports() const { return parts_.ports(); }
  // worker: below workers().
  wire::Telemetry telemetry(uint32_t worker) const;
  uint32_t workers() const { return static_cast<uint32_t>(parts_.workers.size()); }

 private:
  Answer publish(const wire::Message& request);
  Answer bypass(const wire::Message& request);
  Answer telemetry(const wire::Message& request) const;
  Answer samples(const wire::Message& request);
  wire::Totals totals() const;

  Parts parts_;
  std::mutex remember_;  // of writing the switch to disk
  uint64_t start_time_unix_;
  uint64_t samples_told_ = 0;
};

}  // namespace weir::dataplane
