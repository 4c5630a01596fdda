#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/digest.h"
#include "control/base/json/fields.h"
#include "control/compile/compile.h"
#include "control/enforce/rates/rate_watch.h"
#include "control/tell/answer/change.h"
#include "control/tell/answer/parts.h"
#include "control/tell/answer/stats.h"

// An answer tells how controld, its targets and its filters are now.
namespace weir::control {

struct TargetState;

// -------------------------------------------------------------------------------------------------- false positives

// What the filter of one shape lets through at a target although nobody lists it.
struct FilterRate {
  std::string target, shape;
  bool overlay = false;
  std::string verdict;
  int64_t since = 0;
  double predicted = 0;
  std::optional<double> rate, low, high, of_lookups;
  uint64_t keys = 0, keys_let_through = 0;
  uint64_t asked = 0, let_through = 0, found = 0;
};
void members(Fields& f, FilterRate& rate);

FilterRate filter_rate_of(const std::string& target, const WatchedRate& watched);
// Those of the base and overlay with these digests: what runs, and not what ran before.
std::vector<FilterRate> filter_rates_of(const RateWatch& watch, const Digest& base, const Digest& overlay);
bool is_outside(const FilterRate& rate);

// v4 addr/32; v4 addr/32 of the overlay
std::string shape_text(const FilterRate& rate);
// 0.41 % (0.33 to 0.50 %); - where no key was sampled
std::string rate_text(const FilterRate& rate);
std::string predicted_text(const FilterRate& rate);
// What it means, and what to do: one sentence each.
std::string outside_text(const FilterRate& rate);
std::string outside_hint(const FilterRate& rate);

// ----------------------------------------------------------------------------------------------------------- shapes

void members(Fields& f, ShapeReport& shape);
void members(Fields& f, GateReport& gate);

std::string layout_name(const ShapeReport& shape);  // line8; empty: not known
uint64_t exact_bytes_of(const ShapeReport& shape);
const char* name_of_kind(const GateReport& gate);  // open, closed, tables
std::span<const weir_gate_table> tables_of(const GateReport& gate);

// The report of the compilation, as it is told.
struct ShapesAnswer : CompileReport {
  wire::Generation generation;
  std::vector<FilterRate> false_positives;
};
void members(Fields& f, ShapesAnswer& answer);

// ----------------------------------------------------------------------------------------------------------- status

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

TargetStatus status_of(const TargetState& state, wire::Generation running);

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
  std::vector<ShapeReport> shapes;
  std::vector<FilterRate> false_positives;
  std::string notice;
  std::string reloading;
  std::optional<PhaseProgress> progress;
  ReloadAnswer last_reload;
  CaptureState capture;
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
