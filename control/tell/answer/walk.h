#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "control/compile/prove/lookup.h"
#include "control/lists/book/claims.h"
#include "control/policy/model/list.h"
#include "control/tell/answer/probing.h"
#include "filter/format/snapshot.h"

// A whole frame, walked as an enforcer does it: layers, gates, keys, filters, rules, conditions, verdicts.
namespace weir::control {

struct GateWalk {
  std::string side;          // source | destination
  bool is_asked = true;      // false: an overlay is enforced, too, and its keys are not in the gate that is at hand
  bool lets_through = true;  // false: no key of this side is asked
};

struct ConditionWalk {
  std::string text;  // as ShapeCondition::text
  bool holds = false;
  std::vector<std::string> lists;
};

struct KeyWalk : AskedKey {
  std::string side;                 // source | destination; both: of a flow shape
  std::vector<std::string> always;  // lists of every packet with the key, at this time
  std::vector<ConditionWalk> conditions;
  std::vector<std::string> matched;  // those, and what conditions that hold add
};

struct LayerWalk {
  std::string tunnel;  // of the layer around it, in which this one lies; empty: the outermost
  std::string packet;  // in canonical text
  bool is_incomplete = false;
  std::vector<GateWalk> gates;
  std::vector<KeyWalk> keys;
  Verdict verdict;
  std::vector<Origin> origins;  // every entry that matches: the first kMaxOrigins
  size_t n_origins = 0;         // all
};

struct FrameWalk {
  size_t bytes = 0;
  std::string outcome;  // ip | not_ip | malformed
  bool is_incomplete = false;
  std::vector<LayerWalk> layers;  // outer first; none unless it is ip
  // Of the frame. reason: besides, not_ip, and unparsed of a malformed one. matched, monitored: in some layer.
  Verdict verdict;
  size_t layer = 0;  // whose verdict that is, from 1; 0: of none
};

// frame: Ethernet, without FCS. The snapshots say which tunnels are looked into, and what becomes of malformed frames.
// book: of the running generation. now: Unix seconds.
FrameWalk walk(const Enforcing& enforcing, const Book& book, std::span<const uint8_t> frame, uint64_t now);
// The same by lists alone, which hold every entry that holds an address of the frame: layers have no gates and keys.
FrameWalk walk(const ListsAlone& lists, std::span<const uint8_t> frame, uint64_t now);

// The packets of a frame whose tunnels (mask of weir_tunnel) are looked into; none unless it is ip.
std::vector<weir_packet> packets_of(std::span<const uint8_t> frame, uint8_t tunnels);

}  // namespace weir::control
