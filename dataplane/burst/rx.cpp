#include <rte_ethdev.h>
#include <rte_prefetch.h>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

uint32_t rx(PortQueue queue, Burst& burst) noexcept {
  burst.n = rte_eth_rx_burst(queue.port, queue.queue, burst.pkt, kMaxBurst);
  burst.bytes = 0;
  for (uint32_t i = 0; i < burst.n; i++) {
    rte_prefetch0(rte_pktmbuf_mtod(burst.pkt[i], const void*));
    burst.bytes += burst.pkt[i]->pkt_len;
  }
  return burst.n;
}

}  // namespace weir::dataplane
