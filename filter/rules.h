#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "filter/key_shape.h"
#include "filter/snapshot.h"

// What a valid list name, set and rule is: the planner refuses to write others, the view refuses to read them.
namespace weir::filter {

inline bool is_list_name(std::string_view name) {  // [A-Za-z0-9._-]{1,63}
  return !name.empty() && name.size() < WEIR_LIST_NAME_BYTES && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

// Set 0 is empty; no set has bits of lists that are not there.
inline bool set_is_valid(const weir_set& set, size_t id, uint32_t n_lists) {
  const uint32_t allowed = id == 0 ? 0 : n_lists;
  for (uint32_t word = 0; word < WEIR_LIST_WORDS; word++) {
    const uint32_t first = word * 64;
    const uint32_t lists = allowed <= first ? 0 : std::min(allowed - first, 64u);
    const uint64_t mask = lists == 64 ? ~uint64_t{0} : (uint64_t{1} << lists) - 1;
    if ((set.lists[word] & ~mask) != 0) return false;
  }
  return true;
}

// Rule 0 is {0, 0}; no rule names a set that is not there.
inline bool rule_is_valid(const weir_rule& rule, size_t id, uint32_t n_sets) {
  if (id == 0) return rule.source_set == 0 && rule.destination_set == 0;
  return rule.source_set < n_sets && rule.destination_set < n_sets;
}

// The sides (mask of weir_direction) on which the rule has lists.
inline uint8_t sides_of(const weir_rule& rule) {
  return static_cast<uint8_t>((rule.source_set != 0 ? WEIR_AS_SOURCE : 0) |
                              (rule.destination_set != 0 ? WEIR_AS_DESTINATION : 0));
}

// The header's mask that a list of this action and mode stands in.
inline weir_u64* list_mask(weir_snapshot_header& header, uint8_t action, uint8_t mode) {
  if (action == WEIR_PASS) return header.pass_lists;
  return mode == WEIR_MONITOR ? header.monitor_lists : header.drop_lists;
}

// The bits that a canonical key of this shape may have.
inline Key key_mask(KeyShape shape) {
  return shape.family == 4 ? make_key(shape, ~Ipv4{0}, UINT16_MAX) : make_key(shape, ~Ipv6{0}, UINT16_MAX);
}

}  // namespace weir::filter
