#pragma once

#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "control/compile/prove/lookup.h"
#include "control/lists/book/overlap.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/lists.h"
#include "control/tell/answer/stats.h"
#include "filter/format/packet.h"
#include "filter/read/view.h"

// ListsAnswer is made of what the book, the snapshot, the counters and the history say.
namespace weir::control {

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
