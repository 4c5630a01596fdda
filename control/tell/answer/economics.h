#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "control/compile/prove/lookup.h"
#include "control/lists/book/overlap.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/stats.h"
#include "filter/format/packet.h"
#include "filter/read/view.h"

// An answer tells what each list is worth and what it costs.
namespace weir::control {

// ----------------------------------------------------------------------------------------------------------- answer

// The worth and the cost of each list. docs/operate/lists.md explains the numbers and how they are counted.

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
  wire::ListStats counted = {};                       // of all targets; its name is empty
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

// ----------------------------------------------------------------------------------------------- costs, churn, hits

// ListsAnswer is made of what the book, the snapshot, the counters and the history say.

// By list, as in the snapshot. Reads its exact stage once, and no packet.
struct SnapshotCosts {
  std::vector<std::pair<std::string, ListCost>> lists;
  uint64_t snapshot_bytes = 0, gate_bytes = 0;
};
SnapshotCosts costs_of(const filter::SnapshotView& snapshot);

// Which publications changed which list how, newest first. since: of the oldest of them; now: Unix seconds.
ListChurn churn_of(const std::string& list, const std::vector<HistoryRow>& history, int64_t since, int64_t now);

// When the entries of a list are compared anew: the first time after `now` at which one ends. kNever: none does.
uint32_t first_end_after(const Book& book, uint64_t now);

// Which entries sampled frames hit. Looks into the snapshot first: most frames hit nothing.
class HitCounter {
 public:
  // enforcing: a snapshot of this book. now: Unix seconds. Borrows both.
  HitCounter(const Book& book, const Enforcing& enforcing, uint64_t now);
  // The packets of one frame: more than one in tunnels.
  void add(std::span<const weir_packet> layers);
  uint64_t samples() const { return samples_; }
  // By list, as in the book; `never` is left 0.
  std::vector<ListHits> hits() const;

 private:
  const Book& book_;
  const Enforcing enforcing_;
  const uint64_t now_;
  uint64_t samples_ = 0;
  std::vector<uint64_t> samples_of_;                   // by list
  std::vector<std::unordered_set<uint64_t>> entries_;  // by list: those that were hit
};

// The matrix, the counters and the costs of each list. Verdicts, churn and hits are left empty.
ListsAnswer lists_of(const Book& book, const Overlap& overlap, const SnapshotCosts& costs, const ListCounters& counted);

// Two lists are told to be one when each holds this share of the entries of the other.
constexpr double kNearlySame = 0.95;
// Of the lists that are there, filled but for the verdicts.
std::vector<ListVerdict> verdicts_of(const ListsAnswer& answer);

}  // namespace weir::control
