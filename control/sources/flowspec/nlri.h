#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/ip.h"
#include "common/result.h"

// This file has the rules of BGP FlowSpec, and the bytes that BGP writes them in.
namespace weir::control::flowspec {

// BGP writes numbers in network order, and parts with their lengths in front.

using Bytes = std::vector<uint8_t>;
using BytesView = std::span<const uint8_t>;

// Takes from the front of bytes that somebody else has; reads nothing past their end. Where there are too few of them,
// nothing is left: of numbers read in a row the last one tells whether all are there.
class Reader {
 public:
  explicit Reader(BytesView bytes) : left_(bytes) {}

  size_t left() const { return left_.size(); }
  bool is_at_end() const { return left_.empty(); }
  // Empty: fewer are left.
  std::optional<BytesView> take(size_t n) {
    if (left_.size() < n) {
      left_ = {};
      return std::nullopt;
    }
    const BytesView taken = left_.first(n);
    left_ = left_.subspan(n);
    return taken;
  }
  // n <= 8 bytes as a number.
  std::optional<uint64_t> number(size_t n) {
    const std::optional<BytesView> bytes = take(n);
    if (!bytes) return std::nullopt;
    uint64_t value = 0;
    for (const uint8_t byte : *bytes) value = value << 8 | byte;
    return value;
  }
  BytesView rest() { return *take(left()); }

 private:
  BytesView left_;
};

// The low n bytes of value.
inline void put_number(Bytes& bytes, size_t n, uint64_t value) {
  while (n-- > 0) bytes.push_back(static_cast<uint8_t>(value >> (8 * n)));
}
inline void put_bytes(Bytes& bytes, BytesView more) {
  bytes.insert(bytes.end(), more.begin(), more.end());
}

// A rule of BGP FlowSpec, from its bytes and to them: RFC 8955 section 4 for IPv4, RFC 8956 section 3 for IPv6.

enum class Family : uint8_t { v4 = 1, v6 = 2 };  // as BGP's AFI
inline unsigned address_bits(Family family) {
  return family == Family::v4 ? 32 : 128;
}

enum class Type : uint8_t {  // of a component
  destination = 1,
  source = 2,
  protocol = 3,  // of IPv6: of the upper layer
  port = 4,
  destination_port = 5,
  source_port = 6,
  icmp_type = 7,
  icmp_code = 8,
  tcp_flags = 9,
  length = 10,
  dscp = 11,
  fragment = 12,
  flow_label = 13,  // of IPv6
};
// As texts have it: dst, src, proto, port, dport, ...
const char* name_of(Type type);
bool is_prefix(Type type);
bool is_bitmask(Type type);

// One operator and its value.
struct Operator {
  bool is_and = false;  // with those before it; else another alternative begins
  // What of a number (lt, gt, eq) or of bits (inverted, match) it asks for.
  uint8_t asks = 0;
  uint8_t value_bytes = 1;  // 1, 2, 4 or 8
  uint64_t value = 0;
  bool operator==(const Operator&) const = default;
};
constexpr uint8_t kLess = 4, kGreater = 2, kEqual = 1;  // of Operator::asks, numbers
constexpr uint8_t kInverted = 2, kMatch = 1;            // bits: all of the value's, with kMatch; else any of them

// Bits of component fragment (RFC 8955, section 4.2.2.12).
constexpr uint64_t kDontFragment = 1, kIsFragment = 2, kFirstFragment = 4, kLastFragment = 8;

struct Component {
  Type type = Type::destination;
  Ipv6 address = 0;                 // of a prefix; IPv4 in the low 32 bits; bits that count not are 0
  uint8_t prefix_bits = 0;          // how far it goes
  uint8_t offset_bits = 0;          // where it begins: IPv6 alone
  std::vector<Operator> operators;  // of all others, at least one
  bool operator==(const Component&) const = default;
};

struct Rule {
  Family family = Family::v4;
  std::vector<Component> components;  // by type, ascending, each once
  bool operator==(const Rule&) const = default;

  const Component* find(Type type) const;  // null: it asks nothing of it
};

// What BGP names the rule by, in announcements and in withdrawals: its bytes without their length.
struct RuleKey {
  Family family = Family::v4;
  std::string bytes;
  auto operator<=>(const RuleKey&) const = default;
};

// The bytes of one rule behind its length. Error: what is wrong with them; such a rule is nowhere in force.
Result<Rule> parse_rule(Family family, BytesView bytes);
Bytes encode_rule(const Rule& rule);

// An NLRI field: rule after rule, each with its length in front. Error: where the lengths cease to make sense; then no
// rule of it is known.
Result<std::vector<RuleKey>> split_rules(Family family, BytesView field);
void put_rule(Bytes& field, const RuleKey& key);
constexpr size_t kMostRuleBytes = 4095;

// One line for people: dst 192.0.2.0/24 proto 6 port 137-139,8080. A range stands for >= and <=.
std::string text_of(const Rule& rule);

}  // namespace weir::control::flowspec
