#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "common/telemetry.h"
#include "common/wire.h"
#include "dataplane/burst/worker.h"
#include "dataplane/serve/bypass.h"
#include "dataplane/serve/sample_drain.h"
#include "dataplane/serve/server.h"
#include "dataplane/snapshot/publish.h"

namespace weir::dataplane {

// What a data plane does with a request. What takes time is done by others: the publisher's thread, and that of the
// panic switch. What it tells, any thread may ask.
class Control {
 public:
  struct Parts {
    std::vector<Worker>& workers;
    Publisher& publisher;
    BypassSwitch& bypass;
    std::function<uint64_t()> rx_missed;  // frames that the ports lost so far
    uint32_t n_ports;
    std::string_view isa;
    uint32_t sample_one_in = 0;
    std::function<wire::Ports()> ports = {};
  };
  explicit Control(const Parts& parts);

  // From one thread.
  void answer(wire::Message request, Reply reply);
  // The same on the panic switch's own socket, from a thread of its own: nothing that answer() is busy with holds up an
  // order.
  void panic(const wire::Message& request, Reply reply);
  wire::StatusBody status() const;
  wire::Stats stats() const;
  wire::Ports ports() const { return parts_.ports(); }
  // worker: below workers().
  wire::Telemetry telemetry(uint32_t worker) const;
  uint32_t workers() const { return static_cast<uint32_t>(parts_.workers.size()); }

 private:
  Answer look(const wire::Message& request);
  void publish(wire::Message request, Reply reply);
  void bypass(const wire::Message& request, Reply reply);
  Answer telemetry(const wire::Message& request) const;
  Answer samples(const wire::Message& request);
  Answer traffic(const wire::Message& request);
  void shadow(wire::Message request, Reply reply);
  wire::Totals totals() const;

  Parts parts_;
  uint64_t start_time_unix_;
  uint64_t samples_told_ = 0, traffic_told_ = 0;
  TrafficPace traffic_pace_;
};

}  // namespace weir::dataplane
