#include "control/sources/flowspec/nlri.h"

#include <fmt/format.h>

#include <algorithm>

namespace weir::control::flowspec {
namespace {

// An operator's byte (RFC 8955, sections 4.2.1.1 and 4.2.1.2).
constexpr uint8_t kEnd = 0x80, kAnd = 0x40, kAsksNumber = 0x07, kAsksBits = 0x03;
constexpr unsigned kLengthShift = 4;

constexpr const char* kNames[] = {"",          "dst",       "src",       "proto",  "port", "dport",    "sport",
                                  "icmp-type", "icmp-code", "tcp-flags", "length", "dscp", "fragment", "flow-label"};

// How wide a value may be where the RFC says MUST; 0: as wide as it likes.
unsigned widest_value(Type type) {
  switch (type) {
    case Type::tcp_flags:
      return 2;
    case Type::dscp:
    case Type::fragment:
      return 1;
    default:
      return 0;
  }
}

Error cut_off(Type type) {
  return {fmt::format("component {} is cut off", name_of(type))};
}

// Both families' prefixes: length, of IPv6 an offset, then as many bytes as hold the bits between them.
Result<void> parse_prefix(Family family, Reader& reader, Component& component) {
  const std::optional<uint64_t> bits = reader.number(1);
  const std::optional<uint64_t> offset = family == Family::v6 ? reader.number(1) : std::optional<uint64_t>(0);
  if (!bits || !offset) return cut_off(component.type);
  if (*bits > address_bits(family)) {
    return Error{fmt::format("component {} has a prefix of /{}", name_of(component.type), *bits)};
  }
  // RFC 8956, section 3.1: an offset needs bits behind it; /0 with offset 0 is every address.
  if (*offset != 0 && *offset >= *bits) {
    return Error{fmt::format("component {} begins at bit {} and ends at {}", name_of(component.type), *offset, *bits)};
  }
  const unsigned pattern_bits = static_cast<unsigned>(*bits - *offset);
  const std::optional<BytesView> bytes = reader.take((pattern_bits + 7) / 8);
  if (!bytes) return cut_off(component.type);
  Ipv6 pattern = 0;
  for (const uint8_t byte : *bytes) pattern = pattern << 8 | byte;
  component.prefix_bits = static_cast<uint8_t>(*bits);
  component.offset_bits = static_cast<uint8_t>(*offset);
  if (pattern_bits != 0) {
    pattern >>= 8 * bytes->size() - pattern_bits;  // bits past the prefix count not
    component.address = pattern << (address_bits(family) - *bits);
  }
  return {};
}

Result<void> parse_operators(Reader& reader, Component& component) {
  const uint8_t asks_mask = is_bitmask(component.type) ? kAsksBits : kAsksNumber;
  const unsigned widest = widest_value(component.type);
  while (true) {
    const std::optional<uint64_t> byte = reader.number(1);
    if (!byte) return cut_off(component.type);
    Operator one;
    one.is_and = (*byte & kAnd) != 0 && !component.operators.empty();  // of the first it means nothing
    one.asks = static_cast<uint8_t>(*byte & asks_mask);
    one.value_bytes = static_cast<uint8_t>(1u << (*byte >> kLengthShift & 3));
    if (widest != 0 && one.value_bytes > widest) {
      return Error{fmt::format("component {} has a value of {} bytes", name_of(component.type), one.value_bytes)};
    }
    const std::optional<uint64_t> value = reader.number(one.value_bytes);
    if (!value) return cut_off(component.type);
    one.value = *value;
    component.operators.push_back(one);
    if ((*byte & kEnd) != 0) return {};
  }
}

std::string operator_text(const Component& component, const Operator& one) {
  if (is_bitmask(component.type)) {
    return fmt::format("{}{}0x{:x}", (one.asks & kInverted) != 0 ? "!" : "", (one.asks & kMatch) != 0 ? "=" : "",
                       one.value);
  }
  constexpr const char* kSigns[] = {"false", "", ">", ">=", "<", "<=", "!=", "true"};
  const bool has_value = one.asks != 0 && one.asks != kAsksNumber;
  return has_value ? kSigns[one.asks] + std::to_string(one.value) : kSigns[one.asks];
}

std::string operators_text(const Component& component) {
  std::string text;
  const std::vector<Operator>& all = component.operators;
  for (size_t i = 0; i < all.size(); i++) {
    if (i != 0) text += all[i].is_and ? "&" : ",";
    const bool is_alone =
        !all[i].is_and && i + 1 < all.size() && all[i + 1].is_and && (i + 2 == all.size() || !all[i + 2].is_and);
    if (!is_bitmask(component.type) && is_alone && all[i].asks == (kGreater | kEqual) &&
        all[i + 1].asks == (kLess | kEqual)) {
      text += fmt::format("{}-{}", all[i].value, all[i + 1].value);
      i++;
    } else {
      text += operator_text(component, all[i]);
    }
  }
  return text;
}

}  // namespace

const char* name_of(Type type) {
  return kNames[static_cast<size_t>(type)];
}

bool is_prefix(Type type) {
  return type == Type::destination || type == Type::source;
}

bool is_bitmask(Type type) {
  return type == Type::tcp_flags || type == Type::fragment;
}

const Component* Rule::find(Type type) const {
  const auto found =
      std::find_if(components.begin(), components.end(), [&](const Component& each) { return each.type == type; });
  return found == components.end() ? nullptr : &*found;
}

Result<Rule> parse_rule(Family family, BytesView bytes) {
  Rule rule;
  rule.family = family;
  Reader reader(bytes);
  const Type last = family == Family::v4 ? Type::fragment : Type::flow_label;
  uint64_t before = 0;
  if (bytes.empty()) return Error{"the rule has no component"};
  while (!reader.is_at_end()) {
    const uint64_t type = *reader.number(1);
    if (type == 0 || type > static_cast<uint64_t>(last))
      return Error{fmt::format("component type {} is not known", type)};
    if (type <= before) return Error{fmt::format("component type {} stands behind {}", type, before)};
    before = type;
    Component& component = rule.components.emplace_back();
    component.type = static_cast<Type>(type);
    const Result<void> parsed =
        is_prefix(component.type) ? parse_prefix(family, reader, component) : parse_operators(reader, component);
    if (!parsed) return Error{parsed.error()};
  }
  return rule;
}

Bytes encode_rule(const Rule& rule) {
  Bytes bytes;
  for (const Component& component : rule.components) {
    bytes.push_back(static_cast<uint8_t>(component.type));
    if (is_prefix(component.type)) {
      const unsigned pattern_bits = component.prefix_bits - component.offset_bits;
      const unsigned n_bytes = (pattern_bits + 7) / 8;
      bytes.push_back(component.prefix_bits);
      if (rule.family == Family::v6) bytes.push_back(component.offset_bits);
      Ipv6 pattern = 0;
      if (pattern_bits != 0) {
        pattern = component.address >> (address_bits(rule.family) - component.prefix_bits);
        pattern <<= 8 * n_bytes - pattern_bits;
      }
      for (unsigned i = n_bytes; i-- > 0;) bytes.push_back(static_cast<uint8_t>(pattern >> (8 * i)));
      continue;
    }
    for (const Operator& one : component.operators) {
      unsigned length = 0;
      while (1u << length < one.value_bytes) length++;
      bytes.push_back(static_cast<uint8_t>((&one == &component.operators.back() ? kEnd : 0) | (one.is_and ? kAnd : 0) |
                                           length << kLengthShift | one.asks));
      put_number(bytes, one.value_bytes, one.value);
    }
  }
  return bytes;
}

Result<std::vector<RuleKey>> split_rules(Family family, BytesView field) {
  std::vector<RuleKey> keys;
  Reader reader(field);
  while (!reader.is_at_end()) {
    uint64_t length = *reader.number(1);
    if (length >= 0xf0) {  // two bytes, of which twelve bits count (RFC 8955, section 4.1)
      const std::optional<uint64_t> low = reader.number(1);
      if (!low) return Error{"the length of a rule is cut off"};
      length = (length & 0x0f) << 8 | *low;
    }
    const std::optional<BytesView> bytes = reader.take(length);
    if (!bytes) return Error{fmt::format("a rule of {} bytes is longer than what is left", length)};
    keys.push_back({family, std::string(bytes->begin(), bytes->end())});
  }
  return keys;
}

void put_rule(Bytes& field, const RuleKey& key) {
  const size_t length = key.bytes.size();
  if (length < 0xf0) {
    field.push_back(static_cast<uint8_t>(length));
  } else {
    put_number(field, 2, 0xf000 | length);
  }
  field.insert(field.end(), key.bytes.begin(), key.bytes.end());
}

std::string text_of(const Rule& rule) {
  std::string text;
  for (const Component& component : rule.components) {
    if (!text.empty()) text += ' ';
    text += name_of(component.type);
    text += ' ';
    if (!is_prefix(component.type)) {
      text += operators_text(component);
      continue;
    }
    text += rule.family == Family::v4 ? to_string(static_cast<Ipv4>(component.address)) : to_string(component.address);
    text += fmt::format("/{}", component.prefix_bits);
    if (component.offset_bits != 0) text += fmt::format(" from bit {} on", component.offset_bits);
  }
  return text;
}

}  // namespace weir::control::flowspec
