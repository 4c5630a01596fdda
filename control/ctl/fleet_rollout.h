#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "control/sources/fleet/desk.h"

// A staged revision, brought to one group of nodes after the other.
namespace weir::control::ctl {

struct Rollout {
  uint64_t revision = 0;
  std::vector<std::string> groups;  // in this order; the rest comes last
  double wait_s = 600;              // for the nodes of a group to enforce it
  double watch_s = 10;              // how long a group is looked at before the next one
  double most_excess = 0.3;         // of what is dropped, over what its nodes expected; a share of that
};

struct RolledOut {
  std::vector<std::string> groups;  // that have it
  std::string stopped;              // why it went no further; empty: it is everywhere
};

// Every node that is alive when its group's turn comes must enforce the revision, stay alive, drop no more than it
// expected by its own samples of traffic, and see no less than half of the packets that it saw before. say: what
// happens, for people. Error: etcd cannot be reached, or somebody else changed the fleet.
Result<RolledOut> roll_out(fleet::Desk& desk, const Rollout& rollout,
                           const std::function<void(const std::string&)>& say);

// Why a node that took the revision is not well; empty: it is. before: as it was before.
std::string ailment(const fleet::Node& node, const fleet::Node& before, double most_excess);

}  // namespace weir::control::ctl
