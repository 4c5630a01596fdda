#pragma once

#include <cstdint>

#include "common/result.h"
#include "dataplane/burst/counters.h"
#include "dataplane/ports/port_plan.h"
#include "dataplane/start/config.h"

struct rte_mbuf;

// RSS in software, for a port with one receive queue: the worker that polls it hashes the addresses of each frame and
// hands it on through a net_ring, whose queues the workers poll like any other. A flow stays in one queue and in its
// order, and so do the frames of its other direction.
namespace weir::dataplane {

// Makes the net_ring of every port with `spread`. Before plan_ports.
Result<void> add_spread_rings(const Config& config);

// Which of n queues gets the frame: by the addresses of its outermost packet, in either order; 0 when it has none.
uint16_t spread_queue(const rte_mbuf& frame, uint16_t n) noexcept;

// One burst. Frames that find their queue full are freed and counted in rx_lost. Returns the number of frames received.
uint16_t spread_burst(const Spread& spread, WorkerCounters& counters) noexcept;

}  // namespace weir::dataplane
