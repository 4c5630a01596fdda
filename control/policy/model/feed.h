#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "filter/format/snapshot.h"

namespace weir::control {

// A line that somebody should look at.
struct LineSample {
  enum Kind : uint8_t {
    bad,        // the reader does not understand it
    skipped,    // the reader understands it; it is no entry of this list: a domain, an exception
    host_bits,  // an entry: the reader cleared the bits behind its prefix length
  };
  static constexpr size_t kKinds = 3;
  static constexpr const char* kNames[kKinds] = {"bad", "skipped", "host_bits"};  // in the order of Kind

  uint32_t line;
  std::string text;    // shortened to 80 characters
  std::string reason;  // e.g. "leading zero in an octet"
  Kind kind = bad;
  bool operator==(const LineSample&) const = default;
};

// A warning about a feed as a whole. The file's name goes in front of it.
struct FeedNote {
  std::string reason;  // "has numbers behind 12 of its 14 addresses, which are not read"
  std::string hint;    // the way out
  bool operator==(const FeedNote&) const = default;
};

struct FeedReport {
  std::string path;      // as opened; empty: the list has no file
  std::string format;    // that it was read as
  std::string why;       // `format: auto`: what this format was told by: "line 3 begins with `add `"
  uint64_t lines = 0;    // all lines of the file
  uint64_t entries = 0;  // good ones
  uint64_t bad = 0;
  uint64_t skipped = 0;             // understood, but no entries of a list of addresses: `nomatch`, domains
  uint64_t host_bits = 0;           // entries whose host bits were cleared
  std::vector<LineSample> samples;  // the first kSamplesOfAKind of each kind, as they come
  std::vector<FeedNote> notes;      // warnings of its reader and its guard that stand while it is enforced
  bool operator==(const FeedReport&) const = default;
};

constexpr size_t kSamplesOfAKind = 5;

// Why a file as a whole is not taken. As in "FILE ends inside of ...".
struct FeedFault {
  std::string reason;
  std::string hint;
  bool is_cut_off = false;  // a list whose end is missing: `controlctl feeds --accept` may take what is there
};

// Which file it is, and when it changed last: what is the same in all of it holds the same bytes, unless it was changed
// again in the same moment (FeedState::settled).
struct FileIdentity {
  uint64_t device = 0, inode = 0, size_bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // st_mtim, st_ctim, in nanoseconds since 1970
  bool operator==(const FileIdentity&) const = default;
};

// Says what a drop list does with entries in address space that no stranger sends from: keep them, keep them and warn,
// take them out, or refuse the feed.
enum class Reserved : uint8_t { keep, warn, cut, refuse };
constexpr const char* kReservedNames[] = {"keep", "warn", "cut", "refuse"};  // in the order of Reserved

// Says what a drop list does with addresses that this host needs (control/policy/read/supplies.h): these
// addresses are taken out, or they are kept; with a warning either way.
enum class OfSupplies : uint8_t { cut, keep };
constexpr const char* kOfSuppliesNames[] = {"cut", "keep"};  // in the order of OfSupplies

// What a feed must keep to; else its list keeps its last good content.
struct Guard {
  uint64_t min_entries = 1;
  double max_shrink = 0.5;  // of the entries that the list had, how many may be gone at once: a share
  double max_growth = 10;   // how many times the entries that it had there may be at once
  Reserved reserved = Reserved::warn;
  uint8_t widest_v4 = 0, widest_v6 = 0;  // prefix lengths; nothing may be wider
  OfSupplies supplies = OfSupplies::cut;
  bool operator==(const Guard&) const = default;
};

// What the entries of a feed, and whether they are taken, depend on beside its bytes.
struct FeedOptions {
  std::string format;
  weir_action action = WEIR_DROP;  // of the list: what a feed marks for the other side is not taken
  uint8_t match = 0;               // mask of weir_direction
  uint8_t ipv6_aggregate = 128;
  bool allow_any = false;
  Guard guard = {};
  std::array<uint64_t, 2> own = {};       // XXH3-128 of `policy.own`, where the guard looks at it
  std::array<uint64_t, 2> supplies = {};  // of what the host needs, in a drop list: digest_of(Supplies)
  bool operator==(const FeedOptions&) const = default;
};

// A feed as it was read: whoever finds it unchanged need not read it again.
struct FeedState {
  FileIdentity file;
  bool settled = false;                 // its last change was long enough before it was read: the identity says all
  std::array<uint64_t, 2> digest = {};  // XXH3-128 of its bytes (low, high)
  FeedOptions options;
  uint64_t ipv6_widened = 0;  // of its addresses, by ipv6_aggregate
  bool ends_in_newline = true;
  bool accepted = false;    // somebody took it as it was, whatever the guard said
  int64_t taken_at = 0;     // Unix seconds, when it was read for the first time
  bool unfinished = false;  // somebody was writing to it: a part, which what comes next is not compared with
  bool operator==(const FeedState&) const = default;
};

// A feed that was not taken: the list keeps what it had of it.
struct FeedRefusal {
  std::string path;    // of the file as it was to be read
  std::string reason;  // with the numbers: "has 3 entries, and the list had 1,000: ..."
  std::string hint;    // the way out
  int64_t since = 0;   // Unix seconds; the first time in a row
  bool operator==(const FeedRefusal&) const = default;
};

// One of the files that a pattern or a folder in `file` stands for.
struct FeedFile {
  FeedReport feed;
  FeedState state;
  std::optional<FeedRefusal> refusal;
  bool operator==(const FeedFile&) const = default;
};

}  // namespace weir::control
