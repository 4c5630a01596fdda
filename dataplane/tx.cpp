#include <rte_ethdev.h>

#include "dataplane/stages.h"

namespace weir::dataplane {

namespace {

// Returns how many frames the port took; the others are freed.
uint32_t send(PortQueue out, rte_mbuf** packets, uint32_t n) noexcept {
  const uint32_t taken = rte_eth_tx_burst(out.port, out.queue, packets, static_cast<uint16_t>(n));
  if (taken < n) rte_pktmbuf_free_bulk(packets + taken, n - taken);
  return taken;
}

void send_passed(const Route& route, rte_mbuf** packets, uint32_t n, WorkerCounters& counters) noexcept {
  if (route.sink) {
    rte_pktmbuf_free_bulk(packets, n);
    counters.sunk.add(n);
    return;
  }
  const uint32_t taken = send(route.out, packets, n);
  counters.tx_packets.add(taken);
  counters.tx_lost.add(n - taken);
}

void discard(const Route& route, rte_mbuf** packets, uint32_t n, WorkerCounters& counters) noexcept {
  if (!route.has_capture) {
    rte_pktmbuf_free_bulk(packets, n);
    counters.freed.add(n);
    return;
  }
  const uint32_t taken = send(route.capture, packets, n);
  counters.captured.add(taken);
  counters.capture_lost.add(n - taken);
}

}  // namespace

void tx(const Route& route, Burst& burst, WorkerCounters& counters) noexcept {
  if (burst.drop == 0) return send_passed(route, burst.pkt, burst.n, counters);
  rte_mbuf* passed[kMaxBurst];
  rte_mbuf* dropped[kMaxBurst];
  uint32_t n_passed = 0;
  uint32_t n_dropped = 0;
  for (uint32_t i = 0; i < burst.n; i++) {
    const bool drop = (burst.drop >> i & 1) != 0;
    passed[n_passed] = burst.pkt[i];
    dropped[n_dropped] = burst.pkt[i];
    n_dropped += drop;
    n_passed += !drop;
  }
  if (n_passed > 0) send_passed(route, passed, n_passed, counters);
  discard(route, dropped, n_dropped, counters);
}

}  // namespace weir::dataplane
