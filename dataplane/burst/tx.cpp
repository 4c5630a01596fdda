#include <rte_ethdev.h>

#include <cstddef>
#include <cstring>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

namespace {

// Not 0 unless nothing else refers to the frame, it is one mbuf with its own buffer, and comes from this pool. All of
// that stands in the mbuf's first line.
uint64_t not_plain(const rte_mbuf* frame, const rte_mempool* pool) noexcept {
  uint64_t rearm;  // data_off, refcnt, nb_segs, port
  static_assert(offsetof(rte_mbuf, refcnt) == offsetof(rte_mbuf, rearm_data) + 2 &&
                offsetof(rte_mbuf, nb_segs) == offsetof(rte_mbuf, rearm_data) + 4);
  memcpy(&rearm, &frame->rearm_data, sizeof rearm);
  constexpr uint64_t kCompared = 0xffff'ffff'0000, kOneAndOne = 0x0001'0001'0000;
  return ((rearm & kCompared) ^ kOneAndOne) | (frame->ol_flags & (RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL)) |
         (reinterpret_cast<uintptr_t>(frame->pool) ^ reinterpret_cast<uintptr_t>(pool));
}

// Frames of one pool that nothing refers to go back to it together: what rte_pktmbuf_free_bulk does for each of them
// is done for all.
void free_all(rte_mbuf** frames, uint32_t n) noexcept {
  rte_mempool* pool = frames[0]->pool;
  uint64_t any = 0;
  for (uint32_t i = 0; i < n; i++) any |= not_plain(frames[i], pool);
  any == 0 ? rte_mempool_put_bulk(pool, reinterpret_cast<void**>(frames), n) : rte_pktmbuf_free_bulk(frames, n);
}

// Returns how many frames the port took; the others are freed.
uint32_t send_by(PortQueue out, rte_mbuf** frames, uint32_t n) noexcept {
  const uint32_t taken = rte_eth_tx_burst(out.port, out.queue, frames, static_cast<uint16_t>(n));
  if (taken < n) rte_pktmbuf_free_bulk(frames + taken, n - taken);
  return taken;
}

}  // namespace

void send(const Route& route, rte_mbuf** frames, uint32_t n, WorkerCounters& counters) noexcept {
  if (route.sink) {
    free_all(frames, n);
    counters.sunk.add(n);
    return;
  }
  const uint32_t taken = send_by(route.out, frames, n);
  counters.tx_packets.add(taken);
  counters.tx_lost.add(n - taken);
}

void discard(const Route& route, rte_mbuf** frames, uint32_t n, WorkerCounters& counters) noexcept {
  if (!route.has_capture) {
    free_all(frames, n);
    counters.freed.add(n);
    return;
  }
  const uint32_t taken = send_by(route.capture, frames, n);
  counters.captured.add(taken);
  counters.capture_lost.add(n - taken);
}

}  // namespace weir::dataplane
