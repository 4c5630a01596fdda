#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/fetch.h"
#include "control/policy/model/list.h"
#include "control/policy/model/policy.h"
#include "control/tell/answer/parts.h"
#include "filter/read/view.h"

// An answer tells of lists, their feeds and their entries.
namespace weir::control {

// ------------------------------------------------------------------------------------------------------------ lists

void members(Fields& f, LineSample& line);
void members(Fields& f, FeedReport& feed);

// Of a list that `add` and `del` may change.
struct DynamicDetails {
  uint64_t max_entries = 0, max_ttl = 0;
};

struct ListDetails {
  struct Widened {
    uint8_t ipv6_aggregate = 128;
    uint64_t ipv6_widened = 0;
  };
  std::string name, comment, action, mode;
  uint8_t match = 0;                                // mask of weir_direction; 0: not known
  uint64_t entries = 0, v4 = 0, v6 = 0, flows = 0;  // v4, v6 and flows: 0 when only the sum is known
  uint64_t own_cut = 0;                             // of them, those that `policy.own` is cut out of
  std::optional<Widened> widened;
  std::optional<DynamicDetails> dynamic;
  std::optional<FeedReport> feed;  // of a pattern or a folder: the sums of all of its files
  std::optional<std::vector<FeedReport>> files;
};
void members(Fields& f, ListDetails::Widened& widened);
void members(Fields& f, DynamicDetails& dynamic);
void members(Fields& f, ListDetails& list);

struct ListAnswer {
  wire::Generation generation;
  std::vector<ListDetails> lists;
};
void members(Fields& f, ListAnswer& answer);

std::vector<ListDetails> details_of(const Book& book);
// A snapshot knows names, actions, modes and sums of entries.
std::vector<ListDetails> details_of(const filter::SnapshotView& snapshot);

// ------------------------------------------------------------------------------------------------------------ feeds

// Of a feed with an url.
struct FetchDetails : FetchState {  // its url is shown_url()
  uint64_t every_s = 0;
};
void members(Fields& f, FetchDetails& fetch);

struct FeedDetails {
  std::string list, file, state, format, why;
  uint64_t entries = 0, lines = 0, bad = 0, skipped = 0;
  int64_t taken_at = 0, since = 0;
  std::string reason, hint;
  std::vector<FeedNote> warnings = {};
  std::optional<FetchDetails> fetch = {};
  uint64_t own_cut = 0;  // of the list
};
void members(Fields& f, FeedNote& warning);
void members(Fields& f, FeedDetails& feed);

struct FeedsAnswer {
  wire::Generation generation;
  std::vector<FeedDetails> feeds;
};
void members(Fields& f, FeedsAnswer& answer);

// Of every list with a file; of a pattern or a folder, of each of its files.
std::vector<FeedDetails> feeds_of(const Book& book);
std::vector<RefusedFeed> refused_feeds(const Book& book);
std::vector<WarnedFeed> warned_feeds(const Book& book);

// ---------------------------------------------------------------------------------------------------------- entries

// The entries of one list, page by page: however many there are, no answer holds all of them.

constexpr size_t kEntriesOfPage = 2000, kTextsOfPage = 10'000;

// Where a page begins: the generation, whose content all pages are of, and a place in it.
struct EntriesPlace {
  enum class Part : uint8_t { v4, v6, flows, added, end };
  uint64_t generation = 0;  // 0: the one that runs
  Part part = Part::v4;
  uint64_t row = 0;
  std::string text = {};  // of the added entry before it

  // As text that nobody needs to understand. Empty: it is none.
  static std::optional<EntriesPlace> parse(const std::string& text);
  std::string print() const;
};

struct EntryDetails {
  struct Added {
    int64_t at = 0;
    uint32_t by = 0;
    std::string comment;
  };
  std::string entry;
  uint8_t match = 0;  // mask of weir_direction; flows name their sides themselves
  std::string file;   // where it is written
  uint32_t line = 0;
  std::optional<uint32_t> expires;
  std::optional<Added> added;
  std::string enforced_as = {};  // of an added entry that ipv6_aggregate widens; empty: as it is written
};
void members(Fields& f, EntryDetails::Added& added);
void members(Fields& f, EntryDetails& entry);

struct EntriesAnswer {
  wire::Generation generation;
  std::string list;
  std::vector<EntryDetails> entries;
  std::string next;  // empty: that was the last page
};
void members(Fields& f, EntriesAnswer& answer);

struct ExportAnswer {
  wire::Generation generation;
  std::string list;
  std::vector<std::string> entries;
  std::string next;
};
void members(Fields& f, ExportAnswer& answer);

// What the files of the list hold, from `place` on, kEntriesOfPage at most; moves place on: to `added` when these are
// all.
std::vector<EntryDetails> written_entries(const List& list, EntriesPlace& place);
// All that is enforced of it at this time (Unix seconds), in the order of addresses, IPv4 before IPv6 before flows:
// kTextsOfPage at most; moves place on, to the end at last.
std::vector<std::string> live_entries(const List& list, uint64_t now, EntriesPlace& place);

}  // namespace weir::control
