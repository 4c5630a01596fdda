#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/policy.h"

// The reference classifier (docs/use/policy.md says what it decides): slow and obviously right, straight from the
// policy's entries. Shares no code with filter/ nor with what control does behind read_policy.
namespace weir::reference {

struct PacketKeys {
  uint8_t family = 4;  // 4 or 6; addresses of IPv4 are in the low 32 bits
  Ipv6 src = 0;
  Ipv6 dst = 0;
  bool has_ports = false;
  uint16_t sport = 0;
  uint16_t dport = 0;
  uint8_t protocol = 0;
  bool has_icmp_type = false, has_icmp_code = false;
  uint8_t icmp_type = 0, icmp_code = 0;
  bool has_tcp_flags = false;
  uint8_t tcp_flags = 0;  // as in byte 13 of the TCP header
  size_t length = 0;      // of the IP packet, as its header says, or to the end of what is around it
  unsigned dscp = 0;
  enum class Fragment : uint8_t { none, first, later } fragment = Fragment::none;
};

struct Classified {
  std::vector<unsigned> matched;  // indices of policy.lists, ascending; monitored ones too
  int credited = -1;              // the list that decided; -1 = policy.default
  weir_action action = WEIR_PASS;

  bool operator==(const Classified&) const = default;
};

// A frame of one or more layers (tunnels). The frame drops when any layer drops.
struct ClassifiedFrame {
  std::vector<unsigned> matched;     // in any layer, each once, ascending
  std::vector<unsigned> would_drop;  // monitored lists matched in a layer where no pass list matches
  std::vector<unsigned> droppers;    // enforced drop lists, likewise
  int credited = -1;                 // dropped: the outermost layer that drops; passed: the outermost with a pass list
  weir_action action = WEIR_PASS;

  bool operator==(const ClassifiedFrame&) const = default;
};

// The definition: asks every entry of every list. now: Unix seconds; an entry is live while now < expires.
Classified classify_linear(const control::Policy& policy, const PacketKeys& packet, uint64_t now = 0);

// Outermost layer first, at least one.
ClassifiedFrame classify_frame(const control::Policy& policy, std::span<const PacketKeys> layers, uint64_t now);

// The same answers from an index, for policies of many hosts: hosts by address, the others sorted; flows one by one.
// Borrows the policy.
class Classifier {
 public:
  explicit Classifier(const control::Policy& policy);
  Classified classify(const PacketKeys& packet, uint64_t now = 0) const;
  ClassifiedFrame classify_frame(std::span<const PacketKeys> layers, uint64_t now) const;

 private:
  struct Claim {  // an entry, widened to 128 bits, of one list
    Ipv6 first;
    Ipv6 last;
    uint16_t port;
    uint8_t directions;
    uint32_t expires;
    unsigned list;
  };
  struct AddressHash {
    size_t operator()(Ipv6 address) const;
  };
  struct Family {
    std::unordered_multimap<Ipv6, Claim, AddressHash> hosts;
    std::vector<Claim> ranges;         // sorted by first
    std::vector<Ipv6> highest_so_far;  // of ranges[0..i]: the highest last
  };
  void match_side(const Family& family, const PacketKeys& packet, uint8_t side, uint64_t now,
                  std::vector<bool>& lists) const;

  const control::Policy& policy_;
  Family v4_, v6_;
};

}  // namespace weir::reference
