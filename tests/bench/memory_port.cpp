#include "tests/bench/memory_port.h"

#include <pcap/pcap.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include <algorithm>
#include <array>

namespace weir::bench {
namespace {

constexpr size_t kLine = 64;

// What rte_eth_rx_burst hands to the function of a port: by queue.
std::array<std::array<void*, RTE_MAX_QUEUES_PER_PORT>, RTE_MAX_ETHPORTS> g_queues;

}  // namespace

Result<FrameStore> FrameStore::read(const std::string& path, size_t most_bytes) {
  char error[PCAP_ERRBUF_SIZE] = "";
  pcap_t* capture = pcap_open_offline(path.c_str(), error);
  if (capture == nullptr) return Error{error};
  FrameStore store;
  pcap_pkthdr header;
  while (const u_char* bytes = pcap_next(capture, &header)) {
    const size_t length = std::min<size_t>(header.caplen, most_bytes);
    store.at_.push_back(store.bytes_.size());
    store.length_.push_back(static_cast<uint16_t>(length));
    store.bytes_.insert(store.bytes_.end(), bytes, bytes + length);
    store.bytes_.resize((store.bytes_.size() + kLine - 1) / kLine * kLine);
  }
  pcap_close(capture);
  if (store.length_.empty()) return Error{path + " holds no frames"};
  return store;
}

uint16_t give_frames(void* queue, rte_mbuf** packets, uint16_t n) {
  const auto& options = *static_cast<const MemoryPortOptions*>(queue);
  if (options.before_burst) options.before_burst();
  if (options.frames == nullptr) return 0;
  n = std::min(n, options.most);
  if (rte_pktmbuf_alloc_bulk(options.pool, packets, n) != 0) return 0;
  for (uint16_t i = 0; i < n; i++) {
    const FrameStore::Frame frame = options.frames->next();
    rte_memcpy(rte_pktmbuf_mtod(packets[i], void*), frame.bytes, frame.length);
    packets[i]->data_len = frame.length;
    packets[i]->pkt_len = frame.length;
  }
  if (options.after_burst) options.after_burst();
  return n;
}

uint16_t take_frames(void*, rte_mbuf** packets, uint16_t n) {
  for (uint16_t i = 0; i < n; i++) rte_pktmbuf_free(packets[i]);
  return n;
}

void replace_port(uint16_t port, const MemoryPortOptions& options) {
  g_queues[port][0] = const_cast<MemoryPortOptions*>(&options);
  rte_eth_fp_ops[port].rxq.data = g_queues[port].data();
  rte_eth_fp_ops[port].rx_pkt_burst = give_frames;
  rte_eth_fp_ops[port].tx_pkt_burst = take_frames;
}

}  // namespace weir::bench
