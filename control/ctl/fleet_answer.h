#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/base/json/fields.h"
#include "control/sources/fleet/head.h"
#include "control/sources/fleet/report.h"
#include "control/sources/fleet/revision.h"

// What `controlctl fleet --json` answers.
namespace weir::control::ctl {

struct NodeRow {
  fleet::Report report;
  bool is_alive = false;
};
void members(Fields& f, NodeRow& row);

struct MemberRow {
  std::string endpoint, version, error;
  int64_t database_bytes = 0;
  std::vector<std::string> alarms;
};
void members(Fields& f, MemberRow& row);

struct FleetAnswer {
  bool ok = true;
  std::string error;
  std::string fleet;
  std::optional<fleet::Head> head;
  std::optional<std::vector<NodeRow>> nodes;
  std::optional<std::vector<fleet::Told>> told;
  std::optional<double> newly_dropped, newly_passed;
  std::optional<std::vector<MemberRow>> etcd;
  std::optional<std::vector<fleet::Revision>> revisions;
  std::optional<std::vector<fleet::Head>> log;
  std::optional<uint64_t> revision;  // pushed, or that is gone back to
  std::optional<uint64_t> bytes_sent, files_sent;
  std::optional<std::vector<std::string>> groups;  // that a rollout reached
  std::optional<uint64_t> entries, missing, waiting;
  std::string difference;
};
void members(Fields& f, FleetAnswer& answer);

}  // namespace weir::control::ctl
