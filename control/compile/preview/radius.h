#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "control/compile/preview/reservoir.h"
#include "control/compile/prove/lookup.h"

// The blast radius of a change: what would become of the traffic that flows.
namespace weir::control {

// A share of the packets, and the interval in which it lies in 95 of 100 cases.
struct Share {
  double value = 0, low = 0, high = 1;
};
// Wilson's interval (1927). of, all: weights; n: how many equal samples know as much (all^2 over the sum of squares).
Share share_of(double of, double all, double n);

struct Radius {
  uint64_t samples = 0;  // frames that are judged by both
  double frames = 0;     // that they stand for
  uint64_t seconds = 0;  // from the oldest to the newest
  Share dropped_before, dropped_after;
  Share newly_dropped, newly_passed;
  double newly_dropped_bytes = 0, newly_passed_bytes = 0;  // shares of the bytes

  // Whom it is credited to: newly dropped frames to the list that would drop them, or policy.default or
  // policy.unparsed; newly passed ones to what drops them now. Most frames first.
  struct Credit {
    std::string name;
    Share newly_dropped, newly_passed;
    uint64_t samples = 0;
  };
  std::vector<Credit> credits;

  // Pass lists of the candidate, and frames that they let through though a drop list matches. Most frames first.
  struct LetThrough {
    std::string list;
    Share share;
    uint64_t samples = 0;
  };
  std::vector<LetThrough> let_through;

  // The addresses with the most frames of which the verdict changes.
  struct Talker {
    std::string address;
    std::string side;         // src, dst
    bool is_dropped = false;  // now; else it passes
    Share share;
    uint64_t samples = 0;
    std::string credit;  // of most of it
  };
  std::vector<Talker> talkers;

  // The candidate judges other tunnels than what runs: what is inside was seen as what runs sees it.
  bool are_tunnels_different = false;
};

// now: Unix seconds, for entries that expire. accepted: lists whose change somebody wants: frames that such a list
// decides, before or after, count as unchanged.
Radius radius_of(const Enforcing& before, const Enforcing& after, std::span<const SeenFrame> frames, uint64_t now,
                 const std::set<std::string>& accepted = {});

// What becomes of one frame.
struct SeenVerdict {
  bool is_dropped = false;
  std::string credit;  // a list, policy.default, policy.unparsed; empty: no list and no default was asked (not_ip)
};
SeenVerdict judge_seen(const Enforcing& enforcing, const SeenFrame& frame, uint64_t now);

}  // namespace weir::control
