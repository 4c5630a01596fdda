#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/result.h"

struct rte_mbuf;
struct rte_mempool;

// A port of DPDK that gives frames out of memory and swallows what it is sent, without a driver's costs: what is left
// is taking mbufs from the pool, copying frames into them, and giving them back. Every mbuf that is freed is the next
// one that is taken, as with the cache of a real pool.
namespace weir::bench {

// Frames one behind the other, each at a cache line's begin.
class FrameStore {
 public:
  // Frames of a pcap file, cut off at `most_bytes`.
  static Result<FrameStore> read(const std::string& path, size_t most_bytes);

  struct Frame {
    const uint8_t* bytes;
    uint16_t length;
  };
  Frame next() noexcept {
    const Frame frame = {bytes_.data() + at_[turn_], length_[turn_]};
    turn_ = turn_ + 1 == length_.size() ? 0 : turn_ + 1;
    taken_++;
    return frame;
  }
  uint64_t taken() const { return taken_; }  // frames so far

 private:
  std::vector<uint8_t> bytes_;
  std::vector<size_t> at_;
  std::vector<uint16_t> length_;
  size_t turn_ = 0;
  uint64_t taken_ = 0;
};

struct MemoryPortOptions {
  rte_mempool* pool;
  FrameStore* frames;                  // null: it never gives any
  uint16_t most = 64;                  // frames that it gives at once
  std::function<void()> before_burst;  // called when it is asked for frames; may end what runs
  std::function<void()> after_burst;   // called when it has given them
};

// Puts itself in the place of a net_null port that is configured and started, queue 0. The options live as long as it
// is used; one memory port for each port.
void replace_port(uint16_t port, const MemoryPortOptions& options);

// What a port gives and takes: as the functions behind rte_eth_rx_burst and rte_eth_tx_burst.
uint16_t give_frames(void* options, rte_mbuf** packets, uint16_t n);
uint16_t take_frames(void* unused, rte_mbuf** packets, uint16_t n);

}  // namespace weir::bench
