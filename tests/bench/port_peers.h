#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/ip.h"
#include "common/result.h"

// What DPDK itself offers for a blocklist of sources, behind one call: a peer of the data plane on the same frames.
namespace weir::bench {

constexpr unsigned kPeerBurst = 64;  // RTE_HASH_LOOKUP_BULK_MAX

struct Prefix {
  Ipv6 address;  // IPv4: the low 32 bits
  uint8_t bits;
  bool is_v6;
};

class PortPeer {
 public:
  virtual ~PortPeer() = default;
  // headers: n headers of its family, n <= kPeerBurst. out: bit i is 1 when the source of header i is listed.
  virtual uint64_t listed(const uint8_t* const* headers, unsigned n) = 0;
  virtual bool is_v6() const { return false; }
};

// Lists of the feed's lines: addresses and prefixes.
Result<std::vector<Prefix>> read_prefixes(const std::string& path);

// "io": nothing is looked up. "acl": rte_acl. "fib": rte_fib, DIR-24-8. "hash": rte_hash for hosts, rte_fib for the
// rest. "member_vbf", "member_ht": rte_member for hosts, rte_fib for the rest. "fib6": rte_fib6, trie.
Result<std::unique_ptr<PortPeer>> make_port_peer(const std::string& name, std::span<const Prefix> prefixes);

}  // namespace weir::bench
