#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.h"
#include "control/base/json/fields.h"

namespace weir::control::fleet {

// What stands behind the key of an entry of the whole fleet.
struct Added {
  std::string by;    // who added it
  std::string node;  // shared by this node; empty: by somebody
  std::string comment;
  uint64_t ttl_s = 0;  // of its lease, when it was added; 0: it has none
  int64_t at = 0;      // Unix seconds, by the clock of whoever added it
};
void members(Fields& f, Added& added);

constexpr size_t kMostEntry = 512;    // bytes of its text
constexpr size_t kMostComment = 200;  // bytes

std::string text_of(const Added& added);
Result<Added> read_added(std::string_view text);

}  // namespace weir::control::fleet
