#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/tell/answer/change.h"
#include "control/tell/answer/false_positives.h"
#include "control/tell/answer/shapes.h"
#include "control/tell/answer/stats.h"

namespace weir::control {

struct InterfaceStatus {
  std::string name;
  uint32_t index = 0;
  bool attached = false;
  std::string mode, error;
};
void members(Fields& f, InterfaceStatus& interface);

struct TargetStatus {
  std::string socket;
  bool connected = false, acknowledged = false;
  std::string last_error, version;
  wire::Generation generation;
  bool bypass = false;
  uint32_t workers = 0, ports = 0;
  std::string isa;
  uint64_t snapshot_bytes = 0, snapshot_limit_bytes = 0;
  bool huge_pages = false;
  uint64_t start_time = 0;
  bool durable = true;
  std::string disk_error;
  std::optional<std::vector<InterfaceStatus>> interfaces;  // of XDP
};
void members(Fields& f, TargetStatus& target);

struct Limit {
  uint64_t used = 0, max = 0;
};
void members(Fields& f, Limit& limit);

struct Memory {
  uint64_t rss_bytes = 0, peak_bytes = 0;
};
void members(Fields& f, Memory& memory);

struct MetricsDetails {
  std::string address, error;
};
void members(Fields& f, MetricsDetails& metrics);

// How this node stands in its fleet.
struct FleetStanding {
  std::string name, node, group;
  uint64_t turn = 0;       // of the head that it follows
  uint64_t revision = 0;   // that it enforces; 0: none yet
  uint64_t wanted = 0;     // that its group is to enforce
  std::string state;       // as in fleet/report.h
  std::string error;       // why not, or what of the revision is not as it should be
  std::string etcd_error;  // why etcd is not heard, or not followed; empty: it is
  uint64_t entries = 0;    // of the fleet, that it enforces
};
void members(Fields& f, FleetStanding& standing);

// How far a phase of a reload is.
struct PhaseProgress {
  uint64_t done = 0, of = 0;
  std::string unit;
};

struct StatusAnswer {
  std::string version = WEIR_VERSION;  // of controld
  std::string config, state_dir;
  int64_t pid = 0;
  bool starting = false;
  wire::Generation generation;
  int64_t published_at = 0;
  bool from_last_good = false;
  std::string disk_error;
  uint64_t entries = 0;
  bool bypass = false;
  std::vector<TargetStatus> targets;
  std::vector<RefusedFeed> refused;
  std::vector<WarnedFeed> warned;
  std::optional<FleetStanding> fleet;
  std::vector<ShapeDetails> shapes;
  std::vector<FilterRate> false_positives;
  std::string notice;
  std::string reloading;
  std::optional<PhaseProgress> progress;
  ReloadAnswer last_reload;
  CaptureAnswer capture;
  std::vector<std::pair<std::string, Limit>> limits;
  Memory memory;
  MetricsDetails metrics;
};
void members(Fields& f, PhaseProgress& progress);
void members(Fields& f, StatusAnswer& answer);

// What controlctl finds out by itself when no controld answers.
struct DirectStatus {
  bool controld = false;
  std::string error;
  std::vector<TargetStatus> targets;
};
void members(Fields& f, DirectStatus& answer);

}  // namespace weir::control
