#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "control/tell/page/facts.h"

// /live.json: the numbers of the page that move. docs/operate/page.md
namespace weir::control::page {

struct LiveCounts {
  uint64_t packets = 0, passed = 0, dropped = 0, lost = 0;
};
void members(Fields& f, LiveCounts& counts);

struct LiveRates {
  uint64_t packets = 0, passed = 0, dropped = 0, lost = 0, bits = 0;
};
void members(Fields& f, LiveRates& rates);

struct LiveTarget {
  uint64_t packets = 0, dropped = 0, lost = 0;
};
void members(Fields& f, LiveTarget& target);

struct LiveList {
  uint64_t matched = 0, effect = 0, effect_rate = 0;
};
void members(Fields& f, LiveList& list);

struct LiveSeries {
  std::string name;
  bool drops = false;
  std::vector<uint64_t> values;
};
void members(Fields& f, LiveSeries& series);

struct LiveHistory {
  uint64_t from = 0, to = 0;
  std::vector<uint64_t> at, passed, dropped;
  std::vector<LiveSeries> lists;
};
void members(Fields& f, LiveHistory& history);

struct LiveAnswer {
  double at = 0;
  std::string state, level, headline;
  bool measured = false;
  LiveCounts totals;
  LiveRates rates;
  std::vector<std::pair<std::string, LiveTarget>> targets;
  std::vector<std::pair<std::string, LiveList>> lists;
  LiveHistory history;
};
void members(Fields& f, LiveAnswer& answer);

LiveAnswer live_of(const Facts& facts);

}  // namespace weir::control::page
