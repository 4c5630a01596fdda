#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/result.h"
#include "control/base/json/fields.h"

// These documents say how nodes stand, what they are asked, and what they answer.
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
