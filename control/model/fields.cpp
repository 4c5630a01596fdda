#include "control/model/fields.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace weir::control {
namespace {

using Problem = std::optional<FieldError>;

// A decimal number without leading zeros, from least to most.
template <class Number>
std::optional<Number> parse_number(std::string_view text, Number least, Number most) {
  Number value = 0;
  const char* end = text.data() + text.size();
  const auto [read_to, failure] = std::from_chars(text.data(), end, value);
  const bool leading_zero = text.size() > 1 && text[0] == '0';
  if (failure != std::errc{} || read_to != end || leading_zero || value < least || value > most) return std::nullopt;
  return value;
}

Problem parse_protocol_into(const Field&, std::string_view text, Flow& flow) {
  flow.protocol = parse_protocol(text);
  if (flow.protocol) return std::nullopt;
  return FieldError{"it must be a protocol's name or number, 0 to 255", "names: " + protocol_names()};
}

std::string print_protocol(const Flow& flow) {
  const std::string_view name = protocol_name(static_cast<uint8_t>(*flow.protocol));
  return name.empty() ? std::to_string(*flow.protocol) : std::string(name);
}

template <std::optional<PortRange> Flow::*kMember>
Problem parse_ports(const Field& field, std::string_view text, Flow& flow) {
  const size_t hyphen = text.find('-');
  const auto first = parse_number<uint16_t>(text.substr(0, hyphen), 1, UINT16_MAX);
  const auto last =
      hyphen == std::string_view::npos ? first : parse_number<uint16_t>(text.substr(hyphen + 1), 1, UINT16_MAX);
  if (!first || !last) {
    const std::string key(field.key);
    return FieldError{"it must be a port from 1 to 65535, or a range",
                      "as in " + key + ": 443 or " + key + ": 8000-8010"};
  }
  if (*last < *first) return FieldError{"the range ends before it begins", "swap its ends"};
  flow.*kMember = PortRange{*first, *last};
  return std::nullopt;
}

template <std::optional<PortRange> Flow::*kMember>
std::string print_ports(const Flow& flow) {
  const PortRange& ports = *(flow.*kMember);
  const std::string first = std::to_string(ports.first);
  return ports.first == ports.last ? first : first + "-" + std::to_string(ports.last);
}

template <std::optional<weir_value> Flow::*kMember>
Problem parse_byte(const Field&, std::string_view text, Flow& flow) {
  flow.*kMember = parse_number<weir_value>(text, 0, UINT8_MAX);
  if (flow.*kMember) return std::nullopt;
  return FieldError{"it must be a whole number from 0 to 255", "write it in decimal, without a unit"};
}

template <std::optional<weir_value> Flow::*kMember>
std::string print_byte(const Flow& flow) {
  return std::to_string(*(flow.*kMember));
}

template <std::optional<weir_masked> Flow::*kMember>
Problem parse_masked(const Field& field, std::string_view text, Flow& flow) {
  const size_t slash = text.find('/');
  const auto set = parse_bits(text.substr(0, slash), field.names());
  const auto mask = slash == std::string_view::npos ? set : parse_bits(text.substr(slash + 1), field.names());
  if (!set || !mask || *mask == 0 || (*set & ~*mask) != 0) {
    return FieldError{"it must be SET/MASK, both names with commas between them",
                      "as in syn/syn,ack: every name of SET must stand in MASK, too"};
  }
  flow.*kMember = weir_masked{*set, *mask};
  return std::nullopt;
}

std::string print_tcp_flags(const Flow& flow) {
  const auto& [set, mask] = *flow.tcp_flags;
  return bit_names(set, tcp_flag_names()) + "/" + bit_names(mask, tcp_flag_names());
}

template <auto kMember>
bool asked(const Flow& flow) {
  return (flow.*kMember).has_value();
}

constexpr const char* kIcmpExample = "give it `type`, `code` or both, as in icmp: {type: 8}";

constexpr Field kFields[] = {
    {.asks = WEIR_ASKS_PROTOCOL,
     .key = "proto",
     .inner = "",
     .label = "proto",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::protocol>,
     .parse = parse_protocol_into,
     .print = print_protocol},
    {.asks = WEIR_ASKS_SPORT,
     .key = "sport",
     .inner = "",
     .label = "sport",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::sport>,
     .parse = parse_ports<&Flow::sport>,
     .print = print_ports<&Flow::sport>},
    {.asks = WEIR_ASKS_DPORT,
     .key = "dport",
     .inner = "",
     .label = "dport",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::dport>,
     .parse = parse_ports<&Flow::dport>,
     .print = print_ports<&Flow::dport>},
    {.asks = WEIR_ASKS_ICMP_TYPE,
     .key = "icmp",
     .inner = "type",
     .label = "icmp-type",
     .form = FieldForm::number,
     .is_asked = asked<&Flow::icmp_type>,
     .parse = parse_byte<&Flow::icmp_type>,
     .print = print_byte<&Flow::icmp_type>,
     .example = kIcmpExample},
    {.asks = WEIR_ASKS_ICMP_CODE,
     .key = "icmp",
     .inner = "code",
     .label = "icmp-code",
     .form = FieldForm::number,
     .is_asked = asked<&Flow::icmp_code>,
     .parse = parse_byte<&Flow::icmp_code>,
     .print = print_byte<&Flow::icmp_code>,
     .example = kIcmpExample},
    {.asks = WEIR_ASKS_TCP_FLAGS,
     .key = "tcp_flags",
     .inner = "",
     .label = "tcp-flags",
     .form = FieldForm::bits,
     .is_asked = asked<&Flow::tcp_flags>,
     .parse = parse_masked<&Flow::tcp_flags>,
     .print = print_tcp_flags,
     .example = "as in tcp_flags: {set: [syn], mask: [syn, ack]}: SYN is set, ACK is not",
     .names = tcp_flag_names,
     .name_noun = "a TCP flag"},
};
static_assert(std::size(kFields) == WEIR_N_FIELDS);

constexpr Carried kCarried[] = {
    {WEIR_HAS_ICMP_TYPE | WEIR_HAS_ICMP_CODE, "ICMP header", "an ICMP header", "`icmp`",
     "`icmp` goes with `proto: icmp` (IPv4) or `proto: icmpv6`"},
    {WEIR_HAS_PORTS, "ports", "ports", "the port", "ports are of tcp, udp, sctp, dccp and udplite"},
    {WEIR_HAS_TCP_FLAGS, "TCP flags", "TCP flags", "`tcp_flags`", "`tcp_flags` goes with `proto: tcp`"},
};

}  // namespace

std::span<const Field> fields() {
  return kFields;
}

const Field* find_field(std::string_view key, std::string_view inner) {
  const Field* found = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const Field& field) { return field.key == key && field.inner == inner; });
  return found == std::end(kFields) ? nullptr : found;
}

std::string field_text(const Field& field, const Flow& flow) {
  const std::string value = field.print(flow);
  const bool is_protocols_name = field.asks == WEIR_ASKS_PROTOCOL && (value[0] < '0' || value[0] > '9');
  return is_protocols_name ? value : std::string(field.label) + " " + value;
}

unsigned fields_asked(const Flow& flow) {
  unsigned asked = 0;
  for (const Field& field : kFields) asked |= field.is_asked(flow) ? unsigned{field.asks} : 0u;
  return asked;
}

unsigned needs_of(unsigned asked) {
  unsigned needs = 0;
#define WEIR_ADD_NEEDS(name, NAME, kind, needed, member, order) \
  if ((asked & WEIR_ASKS_##NAME) != 0) needs |= (needed);
  WEIR_FIELDS(WEIR_ADD_NEEDS)
#undef WEIR_ADD_NEEDS
  return needs;
}

std::span<const Carried> carried() {
  return kCarried;
}

}  // namespace weir::control
