#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/list.h"
#include "control/policy/read/feed_parts.h"
#include "control/policy/read/supplies.h"

// What keeps a feed that has gone wrong from unblocking what its list blocks, and from blocking what it never did.
namespace weir::control {

// Of a feed: why it is refused, or what is strange in it.
struct Complaint {
  std::string reason;  // a sentence that begins with the file
  std::string hint;    // the way out
};

struct NewFeed {
  std::string path;
  uint64_t size_bytes;   // of the file
  bool ends_in_newline;  // its text; of formats that are not of lines: true
  ListDraft& draft;      // its entries alone
  const List* before;    // whose last good content is of this file; null: nobody's is
  const ListDraft& own;  // policy.own
  FeedOptions options;
};

struct Judgement {
  std::optional<Complaint> refused;
  std::vector<Complaint> warnings;  // about the change since the last good content: they are said once
  std::vector<FeedNote> notes;      // about the content: they stand as long as it does, also when it is accepted
};
// `reserved: cut` takes entries out of the draft, and is done when the feed is refused, too: whoever accepts it does
// not accept what is cut, and the next content is compared with what is left.
Judgement judge(const NewFeed& feed);

// Looks in a draft of a drop list for addresses that the host needs. A prefix or range that holds one loses it, when
// the guard and the address say so; an entry of one address stays. Returns what is to be said. The draft's entries are
// those that are enforced: after aggregate_ipv6().
std::vector<FeedNote> cut_supplies(const Supplies& supplies, OfSupplies wanted, ListDraft& draft);

// The same of entries that the policy itself holds, which stay as they are written.
struct SupplyHit {
  uint32_t line = 0;  // 0: there is none
  uint64_t count = 0;
  std::string text;  // of the first entry, with the address and what it is
};
SupplyHit find_supplies(const Supplies& supplies, const ListDraft& draft);

// How many of the rows of a feed that were there before are there no more.
uint64_t count_gone(const Entries& before, const Entries& after);

// The least that entries take in a snapshot: of a host, a slot of an exact stage. IPv4 networks may be bits of a map.
constexpr uint64_t kLeastHostBytes = 8, kLeastNetworkBytes = 1;
uint64_t least_bytes(const ListDraft& draft);

}  // namespace weir::control
