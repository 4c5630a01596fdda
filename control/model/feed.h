#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::control {

struct BadLine {
  uint32_t line;
  std::string text;    // shortened to 80 characters
  std::string reason;  // e.g. "leading zero in an octet"
  bool operator==(const BadLine&) const = default;
};

struct FeedReport {
  std::string path;      // as opened; empty: the list has no file
  uint64_t lines = 0;    // all lines of the file
  uint64_t entries = 0;  // good ones
  uint64_t bad = 0;
  std::vector<BadLine> samples;  // the first 5 bad ones
  bool operator==(const FeedReport&) const = default;
};

// Which file it is, and when it changed last: what is the same in all of it holds the same bytes, unless it was changed
// again in the same moment (FeedState::settled).
struct FileIdentity {
  uint64_t device = 0, inode = 0, size_bytes = 0;
  int64_t modified_ns = 0, changed_ns = 0;  // st_mtim, st_ctim, in nanoseconds since 1970
  bool operator==(const FileIdentity&) const = default;
};

// What the entries of a feed depend on beside its bytes.
struct FeedOptions {
  std::string format;
  uint8_t match = 0;  // mask of weir_direction
  uint8_t ipv6_aggregate = 128;
  bool allow_any = false;
  bool operator==(const FeedOptions&) const = default;
};

// A feed as it was read: whoever finds it unchanged need not read it again.
struct FeedState {
  FileIdentity file;
  bool settled = false;                 // its last change was long enough before it was read: the identity says all
  std::array<uint64_t, 2> digest = {};  // XXH3-128 of its bytes (low, high)
  FeedOptions options;
  uint64_t ipv6_widened = 0;  // of its addresses, by ipv6_aggregate
  bool operator==(const FeedState&) const = default;
};

}  // namespace weir::control
