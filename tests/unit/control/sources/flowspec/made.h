#pragma once

#include <rapidcheck.h>

#include <charconv>
#include <string>

#include "control/sources/flowspec/message.h"

// What the tests of FlowSpec share.
namespace weir::control::flowspec {

// "01 18 c0 00 02".
inline Bytes bytes_of(std::string_view hex) {
  Bytes bytes;
  for (size_t at = 0; at < hex.size();) {
    if (hex[at] == ' ' || hex[at] == '\n') {
      at++;
      continue;
    }
    uint8_t byte = 0;
    std::from_chars(hex.data() + at, hex.data() + at + 2, byte, 16);
    bytes.push_back(byte);
    at += 2;
  }
  return bytes;
}

inline RuleKey key_of(const Rule& rule) {
  const Bytes bytes = encode_rule(rule);
  return {rule.family, std::string(bytes.begin(), bytes.end())};
}
inline RuleKey key_of(Family family, std::string_view hex) {
  const Bytes bytes = bytes_of(hex);
  return {family, std::string(bytes.begin(), bytes.end())};
}

// Any rule that the RFCs allow, as parse_rule() gives it.
inline Rule any_rule() {
  Rule rule;
  rule.family = *rc::gen::element(Family::v4, Family::v6);
  const unsigned width = address_bits(rule.family);
  const int last = rule.family == Family::v4 ? 12 : 13;
  for (int type = 1; type <= last; type++) {
    if (*rc::gen::inRange(0, 3) != 0 && !(type == last && rule.components.empty())) continue;
    Component& component = rule.components.emplace_back();
    component.type = static_cast<Type>(type);
    if (is_prefix(component.type)) {
      component.prefix_bits = static_cast<uint8_t>(*rc::gen::inRange<unsigned>(0, width + 1));
      if (rule.family == Family::v6 && component.prefix_bits != 0 && *rc::gen::inRange(0, 4) == 0) {
        component.offset_bits = static_cast<uint8_t>(*rc::gen::inRange<unsigned>(0, component.prefix_bits));
      }
      Ipv6 address = Ipv6{*rc::gen::arbitrary<uint64_t>()} << 64 | *rc::gen::arbitrary<uint64_t>();
      for (unsigned bit = 0; bit < 128; bit++) {
        const bool counts = bit < width && bit >= width - component.prefix_bits && bit < width - component.offset_bits;
        if (!counts) address &= ~(Ipv6{1} << bit);
      }
      component.address = address;
      continue;
    }
    const int n = *rc::gen::inRange(1, 5);
    for (int i = 0; i < n; i++) {
      Operator& one = component.operators.emplace_back();
      one.is_and = i != 0 && *rc::gen::arbitrary<bool>();
      one.asks = static_cast<uint8_t>(*rc::gen::inRange(0, is_bitmask(component.type) ? 4 : 8));
      const unsigned most = component.type == Type::tcp_flags                            ? 2
                            : is_bitmask(component.type) || component.type == Type::dscp ? 1
                                                                                         : 4;
      one.value_bytes = static_cast<uint8_t>(1u << *rc::gen::inRange<unsigned>(0, most));
      one.value = *rc::gen::arbitrary<uint64_t>();
      if (one.value_bytes < 8) one.value &= (uint64_t{1} << (8 * one.value_bytes)) - 1;
    }
  }
  return rule;
}

}  // namespace weir::control::flowspec
