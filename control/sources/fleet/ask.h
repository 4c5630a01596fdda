#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "control/base/json/fields.h"

namespace weir::control::fleet {

// What somebody asks every node: what this revision would do to its traffic.
struct Ask {
  std::string id;  // random: answers name it
  uint64_t revision = 0;
  std::string by;
  int64_t at = 0;  // Unix seconds
};
void members(Fields& f, Ask& ask);

// A share of the packets, and the interval in which it lies in 95 of 100 cases.
struct ToldShare {
  double value = 0, low = 0, high = 1;
};
void members(Fields& f, ToldShare& share);

// What a node says: `plan` of its own controld, without its lists.
struct Told {
  std::string node, group;
  std::string error;          // why there is no answer
  std::string over_limits;    // why this node would refuse it; empty: it would not
  std::string why_no_radius;  // it has no samples of its traffic, say
  std::optional<ToldShare> newly_dropped, newly_passed, dropped_before, dropped_after;
  uint64_t samples = 0;
  double packets_per_s = 0;  // that the node sees now: its weight
  uint64_t entries = 0, snapshot_bytes = 0;
};
void members(Fields& f, Told& told);

std::string text_of(const Ask& ask);
std::string text_of(const Told& told);
Result<Ask> read_ask(std::string_view text);
Result<Told> read_told(std::string_view text);

}  // namespace weir::control::fleet
