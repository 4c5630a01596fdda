#include <rte_ethdev.h>

#include "dataplane/burst/stages.h"

namespace weir::dataplane {

uint32_t rx(PortQueue queue, uint32_t most, Burst& burst) noexcept {
  const uint32_t n = rte_eth_rx_burst(queue.port, queue.queue, burst.pkt + burst.n, static_cast<uint16_t>(most));
  burst.n += n;
  return n;
}

}  // namespace weir::dataplane
