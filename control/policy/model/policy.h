#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/ip.h"
#include "control/policy/model/capture.h"
#include "control/policy/model/fetch.h"
#include "control/policy/model/list.h"
#include "control/policy/model/listen.h"
#include "control/policy/model/target.h"
#include "filter/format/snapshot.h"

// A policy is plain data: its settings, its targets and its lists.
namespace weir::control {

// Whose inputs a node takes, and as whom: `fleet` of a node's file.
struct FleetSettings {
  std::string name;                          // of the fleet
  std::string node;                          // of this machine
  std::string group = "rest";                // of nodes that take a revision together
  std::vector<std::string> endpoints;        // of etcd: http(s)://HOST:PORT
  std::string ca_file, cert_file, key_file;  // PEM, absolute or relative to the process; empty: none
  std::string user, password_file;           // of etcd; empty: none
  std::vector<std::string> shared_lists;     // what is added to them on this node is added everywhere
  uint64_t shared_per_minute = 60;           // at most; the rest stays on this node
  uint64_t shared_ttl_s = 3600;              // the longest that a shared entry stays elsewhere
  bool operator==(const FleetSettings&) const = default;
};

// What a change of the policy may do to the traffic of late (docs/operate/plan.md).
struct PlanSettings {
  std::optional<double> max_newly_dropped, max_newly_passed;  // shares of the packets, 0 to 1; empty: no limit
  uint32_t samples = 65536;                                   // of recent traffic that controld keeps; 0: none
  uint32_t recent_s = 900;                                    // how long it keeps them
  bool operator==(const PlanSettings&) const = default;
};

struct Canary {  // a key that must not drop, as source or destination
  bool is_v6 = false;
  Ipv4 v4 = 0;
  Ipv6 v6 = 0;
  std::string text;
};

// False-positive rates: below, a filter costs more than the exact stage it spares; above, it spares nothing.
constexpr double kLeastRate = 1e-9, kMostRate = 0.5;
// What a ribbon's eight bits a row let pass, however much memory it has.
constexpr double kLeastRibbonRate = 0x1p-8;

// How much of former generations is kept.
struct HistorySettings {
  uint32_t keep_s = 7 * 86400;
  uint64_t size_bytes = uint64_t{1} << 30;
};

struct Policy {
  std::string path;                         // of the file, as given
  std::shared_ptr<const std::string> text;  // of the file, whole
  std::string state_dir;
  weir_action default_action = WEIR_PASS;
  weir_action unparsed_action = WEIR_PASS;
  uint8_t tunnels = 0;  // mask of weir_tunnel: their inner layers are judged too
  double false_positive_rate = 0.005;
  uint64_t memory_bytes = uint64_t{512} << 20;
  std::optional<weir_layout> layout;  // of every filter; empty: the planner chooses
  std::vector<Canary> canaries;
  std::vector<TargetSpec> targets;
  uint8_t gates_for = kAllKinds;  // mask of TargetKind: only these get gates, which others do not need
  FetchSettings fetch;
  std::optional<CaptureSettings> capture;  // of what is dropped; empty: off
  HistorySettings history;
  PlanSettings plan;
  MetricsSettings metrics;
  std::optional<FleetSettings> fleet;  // empty: this machine is no node of one
  Book lists;                          // in file order
};

}  // namespace weir::control
