#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/policy/model/list.h"
#include "control/tell/answer/parts.h"

// The entries of one list, page by page: however many there are, no answer holds all of them.
namespace weir::control {

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
