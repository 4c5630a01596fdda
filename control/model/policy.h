#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/diagnostic.h"
#include "common/ip.h"
#include "control/model/time_text.h"
#include "control/read/capture_settings.h"
#include "control/read/target_spec.h"
#include "filter/format/snapshot.h"

namespace weir::control {

// One predicate, normalised: an inclusive address range (a host is first == last; a prefix is its range), optionally
// with a port. It matches a packet whose source (address and source port) or destination (address and destination
// port) lies in it, as directions say.
template <class Addr>
struct Entry {
  Addr first;
  Addr last;
  uint32_t line;              // where it was written: 1-based line of the source
  uint16_t port;              // 0 = any
  uint8_t directions;         // mask of weir_direction
  uint8_t source;             // 0 = the policy file, 1 = the list's feed file
  uint32_t expires = kNever;  // Unix seconds: live while now < expires
};

// Inclusive; IPv4 in the low 32 bits.
struct AddressRange {
  Ipv6 first, last;
  bool operator==(const AddressRange&) const = default;
};

struct PortRange {
  uint16_t first, last;  // inclusive, 1..65535
  bool operator==(const PortRange&) const = default;
};

// An entry with named fields that Entry cannot hold: everything that is given must hold, in one layer of a packet.
struct Flow {
  uint8_t family = 0;  // 4 or 6; 0: both, when neither address is given
  std::optional<AddressRange> src, dst;
  std::optional<uint8_t> protocol;
  std::optional<PortRange> sport, dport;        // of packets that have ports
  std::optional<uint8_t> icmp_type, icmp_code;  // of packets that have an ICMP header: protocol 1 or 58
  uint8_t tcp_set = 0, tcp_mask = 0;  // (flags & mask) == set, of packets that have TCP flags; mask 0: not asked
  uint32_t expires = kNever;
  uint32_t line = 0;  // always of the policy file
};

struct BadLine {
  uint32_t line;
  std::string text;    // shortened to 80 characters
  std::string reason;  // e.g. "leading zero in an octet"
};

struct FeedReport {
  std::string path;      // as opened; empty: the list has no file
  uint64_t lines = 0;    // all lines of the file
  uint64_t entries = 0;  // good ones
  uint64_t bad = 0;
  std::vector<BadLine> samples;  // the first 5 bad ones
};

struct List {
  std::string name;
  weir_action action = WEIR_DROP;
  weir_mode mode = WEIR_ENFORCE;
  uint8_t match = WEIR_AS_SOURCE;  // mask of weir_direction: what entries without named fields are compared with
  std::string file;                // feed, as written in the policy; empty: none
  std::vector<Entry<Ipv4>> v4;     // in file order: inline entries, then the feed's
  std::vector<Entry<Ipv6>> v6;
  std::vector<Flow> flows;
  uint8_t ipv6_aggregate = 128;  // single IPv6 addresses are widened to networks of this length
  uint64_t ipv6_widened = 0;     // how many were
  FeedReport feed;

  uint64_t entries() const { return v4.size() + v6.size() + flows.size(); }
};

struct Canary {  // a key that must not drop, as source or destination
  bool is_v6 = false;
  Ipv4 v4 = 0;
  Ipv6 v6 = 0;
  std::string text;
};

// False-positive rates: below, a filter costs more than the exact stage it spares; above, it spares nothing.
constexpr double kLeastRate = 1e-9, kMostRate = 0.5;
// What a ribbon's eight bits a row let pass, however much memory it has.
constexpr double kLeastRibbonRate = 0x1p-8;

struct Policy {
  std::string path;  // of the file, as given
  std::string state_dir;
  weir_action default_action = WEIR_PASS;
  weir_action unparsed_action = WEIR_PASS;
  uint8_t tunnels = 0;  // mask of weir_tunnel: their inner layers are judged too
  double false_positive_rate = 0.005;
  uint64_t memory_bytes = uint64_t{512} << 20;
  std::optional<weir_layout> layout;  // of every filter; empty: the planner chooses
  std::vector<Canary> canaries;
  std::vector<TargetSpec> targets;
  std::optional<CaptureSettings> capture;  // of what is dropped; empty: off
  std::vector<List> lists;  // in file order; `own`, when there is one, is lists[0]: a pass list, both directions
};

// Reads and checks the policy file, then every feed (DESIGN section 3): all diagnostics of the file go to
// `diagnostics`, bad feed lines into each list's FeedReport. Empty when there was an error. now: Unix seconds; entries
// that have expired by then are warnings, and stay.
std::optional<Policy> read_policy(const std::string& path, Diagnostics& diagnostics, uint64_t now = unix_now());

// The file alone, without opening feeds (fuzzing; text as if it were the file `path`).
std::optional<Policy> parse_policy(const std::string& path, std::string text, Diagnostics& diagnostics,
                                   uint64_t now = unix_now());

}  // namespace weir::control
