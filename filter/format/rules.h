#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "filter/format/gate.h"
#include "filter/format/key_shape.h"
#include "filter/format/packet.h"
#include "filter/format/snapshot.h"

// What a valid list name, set, rule and gate is: the planner refuses to write others, the view refuses to read them.
namespace weir::filter {

inline bool is_list_name(std::string_view name) {  // [A-Za-z0-9._-]{1,63}
  return !name.empty() && name.size() < WEIR_LIST_NAME_BYTES && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

// Why a set of the table is none; null when it is one. Set 0 is empty, and no other set is: whoever finds a rule with a
// set takes the first of its lists.
inline const char* set_problem(const weir_set& set, size_t id, uint32_t n_lists) {
  const uint32_t allowed = id == 0 ? 0 : n_lists;
  uint64_t any = 0;
  for (uint32_t word = 0; word < WEIR_LIST_WORDS; word++) {
    const uint32_t first = word * 64;
    const uint32_t lists = allowed <= first ? 0 : std::min(allowed - first, 64u);
    const uint64_t mask = lists == 64 ? ~uint64_t{0} : (uint64_t{1} << lists) - 1;
    if ((set.lists[word] & ~mask) != 0) return "names a list that is not there";
    any |= set.lists[word];
  }
  return id == 0 || any != 0 ? nullptr : "is empty: only set 0 is";
}

// Rule 0 is all zero; no rule names a set or a residual that is not there, or begins inside a chain.
inline bool rule_is_valid(const weir_rule& rule, size_t id, uint32_t n_sets, std::span<const weir_residual> residuals) {
  const uint32_t any = rule.source_set | rule.destination_set | rule.source_chain | rule.destination_chain;
  if (id == 0) return any == 0;
  const auto begins_chain = [&](uint32_t at) {
    return at < residuals.size() && (at == 0 || residuals[at - 1].last == 1);
  };
  return rule.source_set < n_sets && rule.destination_set < n_sets && begins_chain(rule.source_chain) &&
         begins_chain(rule.destination_chain);
}

// Why a residual of the table is none; null when it is one. Chains: those_before residuals of its chain lie before it.
inline const char* residual_problem(const weir_residual& residual, size_t id, uint32_t n_sets, uint32_t those_before) {
  if (residual.last > 1) return "last is not 0 or 1";
  if (those_before >= WEIR_MAX_CHAIN) return "its chain is longer than 64";
  if (id == 0) {
    weir_residual none = {};
    none.last = 1;
    return memcmp(&residual, &none, sizeof none) == 0 ? nullptr : "residual 0 is all zero but last";
  }
  if (residual.set == 0 || residual.set >= n_sets) return "its set is not there";
  if ((residual.asks & ~WEIR_ASKS) != 0) return "it asks what is not known";
  uint64_t reserved = residual.reserved0;
  for (const weir_u64 word : residual.reserved) reserved |= word;
  return reserved == 0 ? nullptr : "reserved is not 0";
}

// Residuals of the longest chain.
inline size_t longest_chain(std::span<const weir_residual> residuals) {
  size_t longest = 0, length = 0;
  for (const weir_residual& residual : residuals.subspan(1)) {  // the first stands for no chain
    length++;
    longest = std::max(longest, length);
    if (residual.last != 0) length = 0;
  }
  return longest;
}

// The sides (mask of weir_direction) on which the rule has, or may have, lists.
inline uint8_t sides_of(const weir_rule& rule) {
  return static_cast<uint8_t>((rule.source_set != 0 || rule.source_chain != 0 ? WEIR_AS_SOURCE : 0) |
                              (rule.destination_set != 0 || rule.destination_chain != 0 ? WEIR_AS_DESTINATION : 0));
}

// Bits that keys of a shape tell of the address on this side, for gates: of the leading 64 (filter/format/gate.h).
constexpr unsigned leading_bits(KeyShape shape, unsigned side) {
  return std::min<unsigned>(shape.flow && side == WEIR_SIDE_DESTINATION ? shape.destination_bits : shape.addr_bits, 64);
}

// Those bits of a key. word(w): its words.
template <class Word>
uint64_t leading_address(KeyShape shape, unsigned side, Word word) {
  const bool second = shape.flow && side == WEIR_SIDE_DESTINATION;
  if (shape.family == 6) return weir_gate_address_v6(word(second ? 2 : 0));
  return weir_gate_address_v4(static_cast<uint32_t>(word(0) >> (second ? 32 : 0)));
}

// Of a gate's tables, ascending by prefix_bits, the one that keys of so many bits go to: of those that look at no more
// bits the one that looks at most, or else the first.
template <class Tables>
size_t gate_table_of(const Tables& tables, unsigned bits) {
  size_t t = 0;
  while (t + 1 < tables.size() && tables[t + 1].prefix_bits <= bits) t++;
  return t;
}

// The header's mask that a list of this action and mode stands in.
inline weir_u64* list_mask(weir_snapshot_header& header, uint8_t action, uint8_t mode) {
  if (action == WEIR_PASS) return header.pass_lists;
  return mode == WEIR_MONITOR ? header.monitor_lists : header.drop_lists;
}

// Why a gate of this family has no such table; null when it may. Looks at prefix_bits and n_words.
inline const char* gate_table_problem(const weir_gate_table& table, unsigned family) {
  const unsigned prefix = table.prefix_bits;
  if (table.n_words == 0) {
    const bool is_direct = prefix >= WEIR_MIN_DIRECT_PREFIX && prefix <= WEIR_MAX_DIRECT_PREFIX;
    return is_direct ? nullptr : "prefix_bits is not 15 to 28, and without words it is direct";
  }
  if (prefix < 1 || prefix > (family == 4 ? WEIR_MAX_GATE_PREFIX_V4 : WEIR_MAX_GATE_PREFIX)) {
    return family == 4 ? "prefix_bits is not 1 to 32" : "prefix_bits is not 1 to 64";
  }
  constexpr unsigned kPageWords = WEIR_PAGE_BYTES / sizeof(uint64_t);
  if (table.n_words % kPageWords != 0) return "n_words is not a multiple of 512";
  return table.n_words / kPageWords <= WEIR_MAX_GATE_PAGES ? nullptr : "n_words is more than 32768 pages";
}

inline uint64_t gate_table_bytes(const weir_gate_table& table) {
  return weir_gate_table_words(table.prefix_bits, table.n_words) * sizeof(uint64_t);
}

// No field beyond its width, and none set that the kind of shape does not have.
constexpr bool shape_is_valid(KeyShape shape) {
  if (shape.family != 4 && shape.family != 6) return false;
  const unsigned width = shape.family == 4 ? 32 : 128;
  if (shape.addr_bits > width || shape.destination_bits > width) return false;
  if (shape.flow) return !shape.with_port && shape.flow_fields < 8;
  return shape.destination_bits == 0 && shape.flow_fields == 0;
}

// The bits that a canonical key of this shape may have.
inline Key key_mask(KeyShape shape) {
  if (shape.flow) {
    constexpr FlowFields kAll{UINT16_MAX, UINT16_MAX, UINT8_MAX};
    return shape.family == 4 ? make_flow_key(shape, ~Ipv4{0}, ~Ipv4{0}, kAll)
                             : make_flow_key(shape, ~Ipv6{0}, ~Ipv6{0}, kAll);
  }
  return shape.family == 4 ? make_key(shape, ~Ipv4{0}, UINT16_MAX) : make_key(shape, ~Ipv6{0}, UINT16_MAX);
}

}  // namespace weir::filter
