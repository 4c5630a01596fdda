#include "dataplane/burst/spread.h"

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <cstring>
#include <random>
#include <utility>

#include "dataplane/burst/burst.h"
#include "filter/format/siphash.h"
#include "filter/frame/frame.h"

namespace weir::dataplane {

namespace {

// Keyed and not linear (as Toeplitz and CRC are): nobody outside can aim at a queue.
struct Secret {
  uint64_t words[2];
  Secret() {
    std::random_device random;
    for (uint64_t& word : words) word = uint64_t{random()} << 32 | random();
  }
};
const Secret kSecret;

}  // namespace

Result<void> add_spread_rings(const Config& config) {
  if (!config.ports) return {};
  for (const PortConfig& port : *config.ports) {
    if (port.spread == 0) continue;
    const std::string name = spread_device(port.port);
    if (const int error = rte_eal_hotplug_add("vdev", name.c_str(), ""); error != 0) {
      return Error{"cannot make the queues for `spread` of port " + std::to_string(port.port) + " (" + name +
                   "): " + rte_strerror(-error) + "; is the net_ring driver of DPDK installed?"};
    }
  }
  return {};
}

uint16_t spread_queue(const rte_mbuf& frame, uint16_t n) noexcept {
  Headers headers;
  const auto* bytes = rte_pktmbuf_mtod(&frame, const uint8_t*);
  if (filter::parse_frame(bytes, frame.data_len, headers) != Outcome::ip) return 0;
  const uint32_t n_words = headers.family == 4 ? 1 : 2;
  const uint64_t* source = headers.address[kSource];
  const uint64_t* destination = headers.address[kDestination];
  if (memcmp(source, destination, n_words * sizeof *source) > 0) std::swap(source, destination);
  uint64_t words[4];
  memcpy(words, source, n_words * sizeof *words);
  memcpy(words + n_words, destination, n_words * sizeof *words);
  const uint64_t hash = weir_siphash13(kSecret.words, words, 2 * n_words);
  return static_cast<uint16_t>((hash >> 32) * n >> 32);
}

uint16_t spread_burst(const Spread& spread, WorkerCounters& counters) noexcept {
  rte_mbuf* frames[kMaxBurst];
  const uint16_t received = rte_eth_rx_burst(spread.in.port, spread.in.queue, frames, kMaxBurst);
  rte_mbuf* sorted[kMaxSpread][kMaxBurst];
  uint16_t n[kMaxSpread] = {};
  for (uint16_t i = 0; i < received; i++) {
    const uint16_t queue = spread_queue(*frames[i], spread.n);
    sorted[queue][n[queue]++] = frames[i];
  }
  for (uint16_t queue = 0; received > 0 && queue < spread.n; queue++) {
    if (n[queue] == 0) continue;
    const uint16_t taken = rte_eth_tx_burst(spread.rings, queue, sorted[queue], n[queue]);
    if (taken == n[queue]) continue;
    rte_pktmbuf_free_bulk(sorted[queue] + taken, static_cast<unsigned>(n[queue] - taken));
    counters.rx_lost.add(static_cast<uint64_t>(n[queue] - taken));
  }
  return received;
}

}  // namespace weir::dataplane
