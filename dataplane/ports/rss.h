#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Receive-side scaling: which queue of a port gets a frame.
namespace weir::dataplane {

// Hash functions that are asked for where the driver has them (mask of RTE_ETH_RSS_*). Some drivers hash TCP and UDP by
// addresses when asked for IP, others (i40e, ice) leave them to queue 0 unless they are named.
uint64_t wanted_rss();

// Every bit random, and new each time. weir judges each frame alone, so the two directions of a flow may have different
// queues. A key that repeats 16 bits (Woo and Park, "Scalable TCP session monitoring with symmetric receive-side
// scaling", 2012) would give them the same one, and all flows whose 16-bit words have the same XOR, too: a sender
// chooses that.
std::vector<uint8_t> random_rss_key(size_t key_bytes);

// "ipv4 ipv4-tcp ipv6": of a mask of RTE_ETH_RSS_*; empty for none.
std::string rss_names(uint64_t functions);

}  // namespace weir::dataplane
