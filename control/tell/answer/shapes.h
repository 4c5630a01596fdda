#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "control/tell/answer/false_positives.h"
#include "control/tell/answer/parts.h"

namespace weir::control {

struct ShapeDetails {
  std::string name;
  uint8_t family = 0, addr_bits = 0;
  bool with_port = false, flow = false;
  uint8_t destination_bits = 0;
  std::vector<std::string> flow_fields;
  std::string layout, layout_why;
  uint32_t k = 0;
  double bits_per_key = 0;
  uint8_t directions = 0;  // mask of weir_direction
  uint64_t keys = 0, filter_bytes = 0, exact_bytes = 0;
  double expected_fpr = 0;
  std::optional<double> measured_fpr;
  std::string why;
};
void members(Fields& f, ShapeDetails& shape);

struct GateTableDetails {
  uint32_t prefix_bits = 0, index_bits = 0;
  uint64_t bytes = 0;
};
void members(Fields& f, GateTableDetails& table);

struct GateDetails {
  std::string name;
  uint8_t family = 0, side = 0;  // side: mask of weir_direction, one of them
  std::string kind;
  std::vector<GateTableDetails> tables;
  double expected_share = 0;
  std::optional<double> measured_share;
  std::string why;
};
void members(Fields& f, GateDetails& gate);

struct ShapesAnswer {
  wire::Generation generation;
  std::vector<ShapeDetails> shapes;
  std::vector<FilterRate> false_positives;
  std::vector<GateDetails> gates;
  unsigned probes_v4 = 0, probes_v6 = 0;
  uint64_t entries = 0, sets = 0, rules = 0, snapshot_bytes = 0;
  uint64_t proved_entries = 0, proved_strangers = 0;
};
void members(Fields& f, ShapesAnswer& answer);

}  // namespace weir::control
