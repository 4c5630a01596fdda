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

}  // namespace

uint64_t wanted_rss() {
  uint64_t wanted = 0;
  for (const RssName& row : kNames) wanted |= row.function;
  return wanted;
}

std::vector<uint8_t> random_rss_key(size_t key_bytes) {
  std::random_device random;  // the kernel's, or the processor's
  std::uniform_int_distribution<unsigned> byte(0, 255);
  std::vector<uint8_t> key(key_bytes);
  for (uint8_t& one : key) one = static_cast<uint8_t>(byte(random));
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
