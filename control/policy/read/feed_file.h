#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/progress.h"
#include "control/policy/feeds/apart.h"
#include "control/policy/feeds/format.h"
#include "control/policy/model/fetch.h"
#include "control/policy/model/list.h"
#include "control/policy/read/feed_guard.h"

namespace weir::control {

// What the lists were before: for feeds that have not changed, and for those that are refused.
struct FeedHistory {
  const Book* book = nullptr;                 // null: nothing is known
  bool is_ours = true;                        // read by this process: what has not changed since need not be read again
  const confine::Helpers* parsers = nullptr;  // null: files are parsed by this process
  std::set<std::string> accept;  // names of lists whose feed is taken as it is now, whatever the guard says
  // Somebody writes to the file: its list keeps what it had until he has closed it. Empty: nobody is known to.
  std::function<bool(const std::string& path)> is_being_written = {};
  std::string state_dir = {};    // instead of the policy's: where feeds are that were fetched
  std::string node_file = {};    // of a node of a fleet: what it says holds on top of the policy; empty: there is none
  Progress* progress = nullptr;  // of bytes of feeds that are read
  // Tells the addresses that this host needs (control/policy/read/supplies.h); asked once a reading. Empty:
  // nothing is known of the host.
  std::function<Supplies()> host_supplies = {};
  bool has_targets = false;                         // also when the policy names none
  std::map<std::string, std::string> instead = {};  // by list: the file that is read instead of its feed's
  // Asks for feeds that there is nothing of yet, and waits. Returns what went wrong, by path. Empty: nobody fetches.
  std::function<std::map<std::string, std::string>(const FetchSettings&, const std::vector<FetchedFeed>&)> fetch_first =
      {};

  FeedHistory(const Book* lists = nullptr) : book(lists) {}
};

// How one feed is to be read.
struct FeedRequest {
  std::string path;
  const feeds::Format* format;  // null: `auto`
  std::string settings;         // of the format: feeds::Options
  FeedOptions options;
  const Supplies* supplies = nullptr;     // of a drop list: what the host needs; null: nothing
  uint64_t memory_bytes = 0;              // filter.memory: a feed that cannot fit into it is not read to its end
  std::optional<Complaint> missing = {};  // what is said when there is no such file; empty: that
};

struct FeedOutcome {
  std::optional<Complaint> error;   // it was not taken, and the list never had any content
  std::vector<Complaint> warnings;  // about what changed; those that stand are FeedReport::notes
};

// Fills the list's feed, feed_state, refusal, ipv6_widened and content: its own entries (own, as they were read;
// own_widened of them by ipv6_aggregate) and those of the feed. A feed that was there before with the same path and
// options is not read again when its file is the same and had settled, and is not parsed again when its bytes are. One
// that cannot be read, or that its guard refuses, leaves the list what it had of a feed. exempt: policy.own.
FeedOutcome read_feed(const FeedRequest& request, ListDraft own, uint64_t own_widened, const ListDraft& exempt,
                      const FeedHistory& history, List& list);

// Widens every single IPv6 address of the draft, with or without a port, to this length. Returns how many there were.
uint64_t aggregate_ipv6(ListDraft& draft, uint8_t prefix_bits);

}  // namespace weir::control
