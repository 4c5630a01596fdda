#include "dataplane/ports/rss.h"

#include <rte_ethdev.h>

#include <random>

namespace weir::dataplane {

namespace {

struct RssName {
  uint64_t function;
  const char* name;
};
constexpr RssName kNames[] = {
    {RTE_ETH_RSS_IPV4, "ipv4"},
    {RTE_ETH_RSS_FRAG_IPV4, "ipv4-frag"},
    {RTE_ETH_RSS_NONFRAG_IPV4_TCP, "ipv4-tcp"},
    {RTE_ETH_RSS_NONFRAG_IPV4_UDP, "ipv4-udp"},
    {RTE_ETH_RSS_NONFRAG_IPV4_SCTP, "ipv4-sctp"},
    {RTE_ETH_RSS_NONFRAG_IPV4_OTHER, "ipv4-other"},
    {RTE_ETH_RSS_IPV6, "ipv6"},
    {RTE_ETH_RSS_FRAG_IPV6, "ipv6-frag"},
    {RTE_ETH_RSS_NONFRAG_IPV6_TCP, "ipv6-tcp"},
    {RTE_ETH_RSS_NONFRAG_IPV6_UDP, "ipv6-udp"},
    {RTE_ETH_RSS_NONFRAG_IPV6_SCTP, "ipv6-sctp"},
    {RTE_ETH_RSS_NONFRAG_IPV6_OTHER, "ipv6-other"},
    {RTE_ETH_RSS_IPV6_EX, "ipv6-ex"},
};

constexpr unsigned kWordBits = 16, kHashBits = 32;
constexpr unsigned kWindowBits = kWordBits - 1 + kHashBits;  // of the key, which meet one word of the input
constexpr size_t kMostWords =
    24;  // 18 are addresses and ports of IPv6; longer keys (i40e: 52 bytes) have room for more
constexpr unsigned kTableBits = 9;  // of the hash, the lowest: they choose the queue

// The part of a key from this bit on, its first bit the highest of kWindowBits.
uint64_t window_at(std::span<const uint8_t> key, size_t bit) {
  uint64_t window = 0;
  for (size_t i = bit; i < bit + kWindowBits; i++) window = window << 1 | (key[i / 8] >> (7 - i % 8) & 1);
  return window;
}

// The kTableBits rows of the hash's matrix for one word are linearly independent: each row is the part of the window
// that the word is multiplied with for one bit of the hash, the lowest bit's being the last.
bool is_even(uint64_t window) {
  uint64_t rows[kTableBits];
  for (unsigned bit = 0; bit < kTableBits; bit++) rows[bit] = window >> bit & ((1u << kWordBits) - 1);
  for (unsigned i = 0; i < kTableBits; i++) {
    if (rows[i] == 0) return false;
    const uint64_t lowest = rows[i] & (~rows[i] + 1);
    for (unsigned j = i + 1; j < kTableBits; j++) {
      if ((rows[j] & lowest) != 0) rows[j] ^= rows[i];
    }
  }
  return true;
}

}  // namespace

uint64_t wanted_rss() {
  uint64_t wanted = 0;
  for (const RssName& row : kNames) wanted |= row.function;
  return wanted;
}

bool has_even_words(std::span<const uint8_t> key) {
  std::vector<uint64_t> windows;  // of the input's words, from the first: source address, destination, ports
  for (size_t bit = 0; bit + kWindowBits <= key.size() * 8 && windows.size() < kMostWords; bit += kWordBits) {
    windows.push_back(window_at(key, bit));
  }
  for (size_t i = 0; i < windows.size(); i++) {
    if (!is_even(windows[i])) return false;
    for (size_t j = 0; j < i; j++) {
      if (!is_even(windows[i] ^ windows[j])) return false;
    }
  }
  return true;
}

std::vector<uint8_t> random_rss_key(size_t key_bytes) {
  std::random_device random;  // the kernel's, or the processor's
  std::uniform_int_distribution<unsigned> byte(0, 255);
  std::vector<uint8_t> key(key_bytes);
  do {  // of 40 bytes one key in 2, of 52 one in 3
    for (uint8_t& one : key) one = static_cast<uint8_t>(byte(random));
  } while (!has_even_words(key));
  return key;
}

std::string rss_names(uint64_t functions) {
  std::string names;
  for (const RssName& row : kNames) {
    if ((functions & row.function) == 0) continue;
    names += (names.empty() ? "" : " ") + std::string(row.name);
  }
  return names;
}

}  // namespace weir::dataplane
