#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "control/base/json/fields.h"

namespace weir::control::fleet {

// How a node stands, as it tells itself.
struct Report {
  std::string node, group, version;  // of weir
  uint64_t turn = 0;                 // of the head that it follows
  uint64_t revision = 0;             // that it enforces; 0: none yet
  uint64_t wanted = 0;               // that its group is to enforce
  std::string state;                 // enforcing, publishing (not all targets have it), taking, refused, waiting
  std::string error;                 // refused: why
  uint64_t generation = 0;
  uint64_t entries = 0;  // of the fleet, that it enforces
  uint64_t entries_refused = 0;
  int64_t entries_at = 0;                // the revision of etcd's store up to which it has them
  uint64_t packets = 0, dropped = 0;     // since its enforcers started
  double packets_per_s = 0;              // lately
  double dropped_share = 0;              // lately, of packets
  std::optional<double> expected_share;  // of packets that the revision drops, as `plan` told before it was taken
  std::optional<double> expected_high;   // the end of its interval
  int64_t enforced_at = 0;               // Unix seconds, by the node's clock: when it enforced this revision
  int64_t at = 0;                        // and when it told this
};
void members(Fields& f, Report& report);

std::string text_of(const Report& report);
Result<Report> read_report(std::string_view text);

}  // namespace weir::control::fleet
