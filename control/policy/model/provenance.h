#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Where an entry comes from, and from when to when it was enforced.
namespace weir::control {

// A publication.
struct Moment {
  uint64_t generation = 0;     // its number; 0: not known
  int64_t at = 0;              // Unix seconds; 0: not known
  std::string cause;           // "reload: asked for", "add", "expired"
  std::optional<uint32_t> by;  // the user who asked for it
};

// Of a file that is fetched or written by others, as it was read.
struct FeedContent {
  std::string from;        // the url as people are shown it, or the file as the policy names it
  int64_t changed_at = 0;  // Unix seconds: when its bytes came, as its file says
  int64_t taken_at = 0;    // when they were read for the first time
  std::string digest;      // XXH3-128 of them, in hexadecimal
};

// What a line says under a name.
struct FeedColumn {
  std::string name, value;
};

struct Provenance {
  std::string text;                  // the line; empty: it is not kept
  std::vector<FeedColumn> columns;   // of a table, or of an object of JSON
  std::optional<FeedContent> feed;   // of an entry of a feed
  std::optional<uint32_t> added_by;  // of one that was added: by which user
  std::optional<int64_t> added_at;   // Unix seconds
  Moment since;                      // the first generation in a row that had it
  bool or_before = false;            // what is kept does not go back further
  std::optional<Moment> until;       // the first one without it; empty: it is still there
};

}  // namespace weir::control
