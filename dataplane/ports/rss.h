#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Receive-side scaling: which queue of a port gets a frame.
namespace weir::dataplane {

// Hash functions that are asked for where the driver has them (mask of RTE_ETH_RSS_*). Some drivers hash TCP and UDP by
// addresses when asked for IP, others (i40e, ice) leave them to queue 0 unless they are named.
uint64_t wanted_rss();

// A random key of so many bytes that has_even_words(), new each time. weir judges each frame alone, so the two
// directions of a flow may have different queues. A key that repeats 16 bits (Woo and Park, "Scalable TCP session
// monitoring with symmetric receive-side scaling", 2012) would give them the same one, and all flows whose 16-bit words
// have the same XOR, too: a sender chooses that.
std::vector<uint8_t> random_rss_key(size_t key_bytes);

// The Toeplitz hash of RSS is linear over GF(2). Its lowest bits choose the queue, and at random one key in 1,000 maps
// the source port to fewer than all values of the lowest 7 bits, so that whoever varies only that reaches half of the
// queues at most. True: each 16-bit word of the input alone, and each two that vary by the same XOR, reach every value
// of the lowest 9 bits, which index a table of up to 512 queues, equally often. Of a key of more than 52 bytes that is
// so for the words that meet its first 52.
bool has_even_words(std::span<const uint8_t> key);

// "ipv4 ipv4-tcp ipv6": of a mask of RTE_ETH_RSS_*; empty for none.
std::string rss_names(uint64_t functions);

}  // namespace weir::dataplane
