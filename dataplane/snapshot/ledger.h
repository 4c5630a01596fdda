#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/wire.h"

namespace weir::dataplane {

// Former lists that are remembered. Past it the one that went away longest ago is forgotten: a policy that renames its
// lists for ever must not grow the data plane, and stats must fit one message.
constexpr size_t kMaxFormerLists = 512;
static_assert(sizeof(wire::Header) + sizeof(wire::StatsBody) +
                  (wire::kMaxLists + kMaxFormerLists) * sizeof(wire::ListStats) <=
              wire::kMaxMessageBytes);

// Counters by list name, kept across snapshots: what retired snapshots counted, added to what the current one counts.
class Ledger {
 public:
  // Takes the final counts of a snapshot that no worker reads any more.
  void retire(const std::vector<wire::ListStats>& counts);
  // The lists of the current snapshot in its order, then the former ones; current: its counts so far.
  std::vector<wire::ListStats> totals(const std::vector<wire::ListStats>& current) const;

 private:
  std::unordered_map<std::string, wire::ListStats> retired_;
  std::deque<std::string> order_;  // oldest retirement first; each name of retired_ once
};

}  // namespace weir::dataplane
