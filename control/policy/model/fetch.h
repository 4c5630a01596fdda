#pragma once

#include <cstdint>
#include <string>

namespace weir::control {

// How feeds with an `url` are fetched: the policy's `fetch`.
struct FetchSettings {
  std::string proxy;  // empty: none
  uint64_t timeout_s = 30;
  uint64_t max_bytes = uint64_t{64} << 20;  // of a feed, after Content-Encoding is undone
  std::string ca_file;                      // certificates that are trusted; empty: those of the system
  std::string user_agent = "weir/" WEIR_VERSION;
  uint32_t concurrent = 4;
  bool may_be_private = false;  // redirects may lead to private addresses
  bool operator==(const FetchSettings&) const = default;
};

// A feed that is fetched.
struct FetchedFeed {
  std::string list;  // its name
  std::string url;
  uint64_t every_s = 3600;
  std::string path;  // of the file that it becomes
  bool operator==(const FetchedFeed&) const = default;
};

// How it stands with one, over restarts. Times are Unix seconds; 0: never.
struct FetchState {
  std::string url;                  // that all of this is of
  std::string etag, last_modified;  // of the content that is in the file
  int64_t tried_at = 0;             // when it was asked for last
  int64_t fetched_at = 0;           // when a server last answered as it should, be it that nothing changed
  int64_t changed_at = 0;           // when the content changed last
  int64_t next_at = 0;              // when it is asked for again
  uint64_t bytes = 0;               // of the file
  uint32_t failures = 0;            // in a row
  std::string error;                // of the last attempt; empty: it worked
  bool operator==(const FetchState&) const = default;
};

// An url as people are shown it: without user and password, and without what a terminal would obey.
std::string shown_url(const std::string& url);

// The file that the feed of a list becomes. Another url of the same list is another file.
std::string fetched_path(const std::string& state_dir, const std::string& list, const std::string& url);

}  // namespace weir::control
