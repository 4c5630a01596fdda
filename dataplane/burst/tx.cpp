#include <rte_ethdev.h>

#include "dataplane/burst/stages.h"

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
  rte_mbuf* dropped[kMaxBurst];
  uint32_t n_dropped = 0;
  for (uint64_t left = burst.drop; left != 0; left &= left - 1) {
    dropped[n_dropped++] = burst.pkt[__builtin_ctzll(left)];
  }
  // Those before the first one that drops are where they should be.
  uint32_t n_passed = static_cast<uint32_t>(__builtin_ctzll(burst.drop));
  for (uint32_t i = n_passed + 1; i < burst.n; i++) {
    burst.pkt[n_passed] = burst.pkt[i];
    n_passed += (burst.drop >> i & 1) == 0;
  }
  if (n_passed > 0) send_passed(route, burst.pkt, n_passed, counters);
  discard(route, dropped, n_dropped, counters);
}

}  // namespace weir::dataplane
