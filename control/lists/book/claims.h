#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/list.h"
#include "control/policy/model/provenance.h"
#include "filter/format/packet.h"

// Which entries of a book hold a key? Address entries are searched (some microseconds among ten million); flows are
// compared one by one, some nanoseconds each: a policy file holds few.
namespace weir::control {

// An entry, and where it was written.
struct Origin {
  std::string list;
  std::string file;  // the policy or the feed
  uint32_t line;
  std::string entry;  // in canonical text, e.g. 203.0.113.0/24, 203.0.113.7:443
  uint8_t directions;
  bool alone = true;         // every packet with the key matches it; else it asks for more of a packet, or has ended
  std::string comment = {};  // of the policy file; with a provenance: whoever wrote the entry
  uint8_t source = 0;        // as Entry::source
  std::optional<Provenance> provenance = {};
  std::variant<Entry<Ipv4>, Entry<Ipv6>, Flow> value = {};  // the entry itself; not in an answer
};

// What the policy file says about an entry of the list; empty: nothing. shown: as shown_text() tells it.
std::string comment_of(const List& list, uint32_t line, const std::string& shown);

struct AddressClaims {
  // Entries that every packet side with this address and port matches, in the order of the lists and their lines; then
  // what depends on more than that: entries that expire, and flows that name the address on some side, or none.
  std::vector<Origin> origins;
  // Asked about without a port: entries of one port of the address.
  std::vector<Origin> of_ports;
};
// port 0: none, only entries of any port match. now: Unix seconds, for Origin::alone.
AddressClaims claims_of(const Book& book, Ipv4 address, uint16_t port, uint64_t now = 0);
AddressClaims claims_of(const Book& book, Ipv6 address, uint16_t port, uint64_t now = 0);

// Every entry that matches the packet at this time (Unix seconds), in the order of the lists and their lines.
std::vector<Origin> claims_of(const Book& book, const weir_packet& packet, uint64_t now);

// `policy.own` holds addresses by some entries, and keeps others from matching them.
struct OwnClaims {
  std::vector<Origin> own;  // in the order of their lines; Origin::list is "policy.own"
  std::vector<Origin> cut;  // of drop lists, in the order of the lists and their lines
};
// directions: mask of weir_direction; entries that are compared with none of them are left out.
OwnClaims own_claims_of(const Book& book, Ipv4 address, uint8_t directions);
OwnClaims own_claims_of(const Book& book, Ipv6 address, uint8_t directions);
// For both sides of the packet.
OwnClaims own_claims_of(const Book& book, const weir_packet& packet);

// The entries of this list that match, as numbers: its IPv4 rows, then its IPv6 rows, then its flows. Each once, in no
// order.
std::vector<uint64_t> entries_that_match(const List& list, const weir_packet& packet, uint64_t now);

// Of this list the first entry that matches, in the order of its sources (policy, feed) and lines.
std::optional<Origin> first_claim(const Book& book, std::string_view list, const weir_packet& packet, uint64_t now);

}  // namespace weir::control
