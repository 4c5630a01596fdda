#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "control/answer/key_place.h"
#include "filter/read/view.h"

namespace weir::control {

struct OriginMatch {
  std::string list;
  std::string file;  // the policy or the feed
  uint32_t line;
  std::string entry;  // in canonical text, e.g. 203.0.113.0/24, 203.0.113.7:443
  uint8_t directions;
};

struct ShapeCondition {
  std::string side;  // of the key: source | destination
  std::string text;  // as flow_text: "tcp dport 8000-8010"
  std::vector<std::string> lists;
};

struct ShapeProbe {
  std::string shape;   // as ShapeReport::name
  std::string key;     // canonical text, e.g. 203.0.113.7/32
  std::string layout;  // of its filter
  uint64_t hash = 0;   // 0 for a bitmap
  KeyPlace place;      // of the key's bits in the filter
  bool filter_hit = false;
  uint32_t rule = 0;                                         // 0 = none
  std::vector<std::string> source_lists, destination_lists;  // of every packet with the key, at this time
  std::vector<ShapeCondition> conditions;                    // what a packet must have besides, for more lists
};

struct Verdict {
  std::string action;                  // pass | drop
  std::string reason;                  // the list credited, or "default"
  std::vector<std::string> matched;    // every list that matches
  std::vector<std::string> monitored;  // of those, lists that only monitor
};

constexpr size_t kMaxOrigins = 100;

struct Explanation {
  std::string key;
  std::vector<ShapeProbe> probes;
  std::vector<std::string> flow_shapes;  // that need more of a packet than the key
  std::vector<OriginMatch> origins;      // the first kMaxOrigins
  size_t n_origins = 0;                  // all
  Verdict as_source, as_destination;     // with nothing else in the packet matching
};

// key: an address, or address:port / [v6]:port. snapshot and origins: the running generation's bytes. now: Unix
// seconds.
Result<Explanation> explain(const filter::SnapshotView& snapshot, std::span<const std::byte> origins,
                            const std::string& key, uint64_t now);

}  // namespace weir::control
