#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "control/tell/answer/capture.h"
#include "control/tell/answer/parts.h"

namespace weir::control {

void members(Fields& f, wire::Totals& totals);
void members(Fields& f, wire::ListStats& list);

// Lists by name, in the order in which they were first seen.
using ListCounters = std::vector<std::pair<std::string, wire::ListStats>>;
wire::ListStats& list_of(ListCounters& lists, const std::string& name);  // made when it is not there

struct TargetStats {
  std::string socket;
  bool connected = false, fresh = false;
  uint64_t start_time = 0;
  uint32_t taken_us = 0;
  wire::Generation generation;
  wire::Totals totals = {};
  ListCounters lists;
};
void members(Fields& f, TargetStats& target);

struct StatsAnswer {
  wire::Totals totals = {};
  wire::Generation generation;
  ListCounters lists;
  std::vector<std::string> former;  // of these, lists that the policy has no more
  std::vector<TargetStats> targets;
  CaptureAnswer capture;
};
void members(Fields& f, StatsAnswer& answer);

void add(wire::ListStats& sums, const wire::ListStats& counters);
// Adds what a target counted.
void add(StatsAnswer& answer, TargetStats target);

// In the order in which people read them.
struct TotalRow {
  const char* name;
  uint64_t wire::Totals::*member;
  const char* unit;
  const char* meaning;
};
std::span<const TotalRow> totals_rows();

}  // namespace weir::control
