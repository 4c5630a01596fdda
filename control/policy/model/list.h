#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/entry.h"
#include "control/policy/model/feed.h"
#include "filter/format/snapshot.h"

namespace weir::control {

// What the policy file says about an entry, for people.
struct EntryComment {
  uint32_t line = 0;  // of the policy file
  std::string entry;  // as shown_text() (control/policy/model/range_text.h) tells it: several may stand on one line
  std::string text;
  bool operator==(const EntryComment&) const = default;
};

// The entries of one list while it is read, in the order of its files: its own in the policy, then the feed's.
struct ListDraft {
  uint8_t match = WEIR_AS_SOURCE;  // mask of weir_direction: what entries without named fields are compared with
  std::vector<Entry<Ipv4>> v4;
  std::vector<Entry<Ipv6>> v6;
  std::vector<Flow> flows;
  std::vector<EntryComment> comments;  // of its own entries
  FeedReport feed;
  std::optional<FeedFault> fault;  // of the feed: what was read of it is not all, or nothing

  uint64_t entries() const { return v4.size() + v6.size() + flows.size(); }
};

// The same, normalised; never changed. Made by control/policy/model/columns.h.
struct Entries {
  Rows<Ipv4> v4;
  Rows<Ipv6> v6;
  std::vector<Flow> flows;              // few (a policy file holds them): in the order of the file
  std::vector<EntryComment> comments;   // of the policy's own entries, ascending by line
  std::array<uint64_t, 2> digest = {};  // XXH3-128 (low, high) of what they match; where they are written is not in it

  uint64_t size() const { return v4.size() + v6.size() + flows.size(); }
};

// Of a list that `controlctl add` and `del` may change.
struct Dynamic {
  uint64_t max_entries = 1'000'000;  // that were added
  uint32_t max_ttl_s = 0;            // and how long one may stay; 0: for ever
  bool allow_any = false;            // /0 may be added
  bool operator==(const Dynamic&) const = default;
};

// `policy.own`: addresses that no address, prefix, range or address:port of a drop list matches.
struct Own {
  std::shared_ptr<const Entries> entries;  // without flows; Entry::source 1: of the node's file
  std::string policy_path, node_path;

  const std::string& file_of(uint8_t source) const { return source == 0 ? policy_path : node_path; }
};

// The entries of a list that held addresses of `policy.own`.
struct OwnCut {
  uint64_t entries = 0;
  uint8_t source = 0;  // of the first: Entry::source, Entry::line, and its text
  uint32_t line = 0;
  std::string first;
};

struct List {
  std::string name, comment;
  weir_action action = WEIR_DROP;
  weir_mode mode = WEIR_ENFORCE;
  uint8_t match = WEIR_AS_SOURCE;
  uint8_t ipv6_aggregate = 128;  // single IPv6 addresses are widened to networks of this length
  uint64_t ipv6_widened = 0;     // how many were
  std::string file;              // feed, as written in the policy, or its url as people are shown it; empty: none
  std::string url;               // whose answer the feed is, user and password included; empty: none
  uint64_t every_s = 0;          // how often it is asked for
  std::string policy_path;       // of the file that the list is written in
  std::optional<Dynamic> dynamic;
  FeedReport feed;
  FeedState feed_state;                // of the feed's file
  std::optional<FeedRefusal> refusal;  // the file is not taken now: feed, feed_state and content are those of before
  // `file` is a pattern or a folder: what it stands for, in the order of their paths; number i is Entry::source i + 1.
  // Then `feed` has its path and sums, and nothing else above is used. Empty: `file` is one file.
  std::vector<FeedFile> files;
  std::shared_ptr<const Entries> content = std::make_shared<Entries>();  // what it matches
  std::shared_ptr<const Entries> written;  // the same before `own` was cut out; null: nothing was
  std::shared_ptr<const Own> own;          // of a drop list; null: the policy has none
  OwnCut cut;

  // Takes these entries as they are written, and cuts `own` out of them. Takes a search for each range of `own`, and
  // a pass over the columns when an entry holds one of its addresses.
  void hold(std::shared_ptr<const Entries> entries);
  const std::shared_ptr<const Entries>& as_written() const { return written != nullptr ? written : content; }

  const Rows<Ipv4>& v4() const { return content->v4; }
  const Rows<Ipv6>& v6() const { return content->v6; }
  const std::vector<Flow>& flows() const { return content->flows; }
  uint64_t entries() const { return content->size(); }
  // Entry::source
  const std::string& file_of(uint8_t source) const {
    static const std::string kJournal = "controlctl add";
    if (source == 0) return policy_path;
    if (source == kJournalSource) return kJournal;
    return source <= files.size() ? files[source - 1].feed.path : feed.path;
  }
  // One or several, or none.
  std::vector<FeedFile> feeds() const {
    if (feed.path.empty() || !files.empty()) return files;
    return {{feed, feed_state, refusal}};
  }
};

// Of one family.
template <class Addr>
const Rows<Addr>& rows_of(const Entries& entries) {
  if constexpr (sizeof(Addr) == sizeof(Ipv4)) {
    return entries.v4;
  } else {
    return entries.v6;
  }
}
template <class Addr>
const Rows<Addr>& rows_of(const List& list) {
  return rows_of<Addr>(*list.content);
}
template <class Addr, class Draft>
auto& entries_of(Draft& draft) {
  if constexpr (sizeof(Addr) == sizeof(Ipv4)) {
    return draft.v4;
  } else {
    return draft.v6;
  }
}

// What is enforced: the lists of a policy in the order of its file, with where each entry is written. Copies share the
// entries.
using Book = std::vector<List>;

}  // namespace weir::control
