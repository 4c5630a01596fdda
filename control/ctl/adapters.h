#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/base/json/fields.h"
#include "control/ctl/line/command.h"
#include "control/sources/flowspec/rules.h"

// The commands that make a list follow a source. weir-connect carries them out: a program of its own, which an
// installation may leave out. controlctl knows their options and their JSON.
namespace weir::control::ctl {

struct CrowdsecArguments {
  std::string url = "http://127.0.0.1:8080", key_file, list, every = "10s", ca_file, cert_file, cert_key_file;
  std::vector<std::string> types = {};
  bool once = false;
};

// A round that changed something, or failed.
struct CrowdsecRound {
  std::string list;
  uint64_t entries = 0, elsewhere = 0, skipped = 0;
  uint64_t added = 0, renewed = 0, deleted = 0, no_room = 0;
  bool has_all_acknowledged = true;  // every target has the changes
  std::string api_error, controld_error;
};

void members(Fields& f, CrowdsecRound& round);

struct FlowspecArguments {
  std::string peer, listen, router_id = "127.0.0.1";
  std::string list, announce, stale = "10m";
  std::string as, peer_as;
  unsigned hold = 90, every = 10, max_rules = 10'000;
};

struct FlowspecStatus {
  std::string peer, state, list;
  flowspec::RuleTable::Counts counts;
  uint64_t announced = 0;
  bool operator==(const FlowspecStatus&) const = default;
};
void members(Fields& f, FlowspecStatus& status);

// A rule of the peer that has no entries.
struct FlowspecRefusal {
  std::string refused, reason;
};
void members(Fields& f, FlowspecRefusal& refusal);

// The arguments are complete. Returns the exit code.
struct Adapters {
  int (*crowdsec)(const Context& context, CrowdsecArguments& arguments);
  int (*flowspec)(const Context& context, const FlowspecArguments& arguments);
};
// At first each starts weir-connect with the same command line, in place of this process. weir-connect has its own.
extern Adapters adapters;

}  // namespace weir::control::ctl
