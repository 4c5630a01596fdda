#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/policy/feeds/named_sets.h"

// From the sets of ipset or nftables to what is asked of controld: one change a list.
namespace weir::control::ctl {

struct RestoreOptions {
  std::string list;               // that takes all sets; empty: each the one of its name
  std::vector<std::string> sets;  // only these; empty: all
  bool ignore_exceptions = false;
};

// What becomes of one set.
struct RestoredSet {
  std::string name, type, list;
  uint64_t entries = 0;  // that are taken
  uint64_t ended = 0;    // whose time is over
  std::vector<feeds::LeftOut> left_out;
  std::vector<std::string> exceptions;
  std::string refused;  // why nothing of it is taken, and the way out; empty: nothing speaks against it
};

struct RestoredList {
  std::string name;
  std::vector<std::string> entries, comments;
  std::vector<uint64_t> ttls;  // seconds; 0: the set says none
};

struct RestorePlan {
  std::vector<RestoredSet> sets;
  std::vector<RestoredList> lists;  // that get something
};

// Error: a set that was asked for is not there.
Result<RestorePlan> plan_restore(const std::deque<feeds::NamedSet>& sets, const RestoreOptions& options, uint64_t now);

// What to write below `lists:` in weir.yaml, for lists that are not there.
std::string lines_of_policy(const std::vector<std::string>& names);

}  // namespace weir::control::ctl
