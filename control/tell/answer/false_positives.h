#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/digest.h"
#include "control/base/json/fields.h"
#include "control/enforce/rates/rate_watch.h"

namespace weir::control {

// What the filter of one shape lets through at a target although nobody lists it.
struct FilterRate {
  std::string target, shape;
  bool overlay = false;
  std::string verdict;
  int64_t since = 0;
  double predicted = 0;
  std::optional<double> rate, low, high, of_lookups;
  uint64_t keys = 0, keys_let_through = 0;
  uint64_t asked = 0, let_through = 0, found = 0;
};
void members(Fields& f, FilterRate& rate);

FilterRate filter_rate_of(const std::string& target, const WatchedRate& watched);
// Those of the base and overlay with these digests: what runs, and not what ran before.
std::vector<FilterRate> filter_rates_of(const RateWatch& watch, const Digest& base, const Digest& overlay);
bool is_outside(const FilterRate& rate);

// v4 addr/32; v4 addr/32 of the overlay
std::string shape_text(const FilterRate& rate);
// 0.41 % (0.33 to 0.50 %); - where no key was sampled
std::string rate_text(const FilterRate& rate);
std::string predicted_text(const FilterRate& rate);
// What it means, and what to do: one sentence each.
std::string outside_text(const FilterRate& rate);
std::string outside_hint(const FilterRate& rate);

}  // namespace weir::control
