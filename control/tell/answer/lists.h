#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/tell/answer/parts.h"

// What each list is worth and what it costs. docs/operate/lists.md says what the numbers mean and how they are counted.
namespace weir::control {

// What another list holds of a list.
struct HeldBy {
  std::string list;
  uint64_t entries = 0, addresses = 0;
};
void members(Fields& f, HeldBy& held);

// Of a list: its part of the snapshot. What keys take is shared evenly by the lists that are in their rules.
struct ListCost {
  uint64_t keys = 0, keys_alone = 0;
  uint64_t bytes = 0, bytes_alone = 0;
  std::vector<std::string> key_types;  // that nobody would look up without this list
  uint64_t probes = 0;                 // of a packet, for those
};
void members(Fields& f, ListCost& cost);

// Of a list: which of its entries were hit by packets that were sampled.
struct ListHits {
  uint64_t samples = 0;  // that an entry of the list matched
  uint64_t entries = 0;  // that some of them matched
  uint64_t never = 0;    // that none of them matched
};
void members(Fields& f, ListHits& hits);

// Of a list, from the history that is kept.
struct ListChurn {
  int64_t changed_at = 0;  // Unix seconds; 0: not since history begins
  int64_t known_since = 0;
  uint64_t changes = 0;  // publications that changed it
  uint64_t added = 0, removed = 0;
  std::optional<double> per_day;  // entries added and removed; history is too short to tell
};
void members(Fields& f, ListChurn& churn);

struct ListEconomics {
  std::string name, action, mode;
  uint64_t entries = 0, addresses = 0;                // that have not ended
  uint64_t unique_entries = 0, unique_addresses = 0;  // that no list holds that would do the same in its place
  std::vector<HeldBy> held_by;                        // what holds most of it first
  uint64_t matched = 0, dropped = 0, dropped_alone = 0, would_drop = 0, would_drop_alone = 0, passed = 0;  // frames
  ListCost cost;
  std::optional<ListHits> hits;
  ListChurn churn;
};
void members(Fields& f, ListEconomics& list);

// What somebody who looks for lists to take out reads first.
struct ListVerdict {
  std::string kind;  // can_go, one, costly
  std::string list;
  std::string other;  // of `one`; of `can_go`, the list that holds all of it; empty: several together do
  std::string text;
};
void members(Fields& f, ListVerdict& verdict);

struct ListsAnswer {
  wire::Generation generation;
  int64_t at = 0;             // Unix seconds, of what lists hold
  double took_ms = 0;         // to compare them
  int64_t counted_since = 0;  // of all targets the latest start; 0: none was reached
  uint64_t packets = 0;       // that were judged since the targets started
  int64_t history_since = 0;
  uint64_t samples = 0;  // of traffic, that hits were counted in
  uint64_t snapshot_bytes = 0, gate_bytes = 0;
  std::vector<ListVerdict> verdicts;
  std::vector<ListEconomics> lists;
};
void members(Fields& f, ListsAnswer& answer);

}  // namespace weir::control
