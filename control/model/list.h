#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/ip.h"
#include "control/model/entry.h"
#include "control/model/flow.h"
#include "filter/format/snapshot.h"

namespace weir::control {

struct BadLine {
  uint32_t line;
  std::string text;    // shortened to 80 characters
  std::string reason;  // e.g. "leading zero in an octet"
};

struct FeedReport {
  std::string path;      // as opened; empty: the list has no file
  uint64_t lines = 0;    // all lines of the file
  uint64_t entries = 0;  // good ones
  uint64_t bad = 0;
  std::vector<BadLine> samples;  // the first 5 bad ones
};

struct List {
  std::string name;
  weir_action action = WEIR_DROP;
  weir_mode mode = WEIR_ENFORCE;
  uint8_t match = WEIR_AS_SOURCE;  // mask of weir_direction: what entries without named fields are compared with
  std::string file;                // feed, as written in the policy; empty: none
  std::vector<Entry<Ipv4>> v4;     // in file order: inline entries, then the feed's
  std::vector<Entry<Ipv6>> v6;
  std::vector<Flow> flows;
  uint8_t ipv6_aggregate = 128;  // single IPv6 addresses are widened to networks of this length
  uint64_t ipv6_widened = 0;     // how many were
  FeedReport feed;

  uint64_t entries() const { return v4.size() + v6.size() + flows.size(); }
};

}  // namespace weir::control
