#include "control/policy/model/fields.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "filter/format/frame_rules.h"

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

std::string range_of(uint64_t first, uint64_t last) {
  return first == last ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last);
}

// Calls f for each part between separators, as long as it returns true. False: it returned false.
template <class F>
bool each_part(std::string_view text, char separator, F&& f) {
  while (true) {
    const size_t end = std::min(text.find(separator), text.size());
    if (!f(text.substr(0, end))) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

struct Range {
  uint32_t first, last;
};

// `7`, `7-9`, and where it may be open `7-`. Empty: it is none.
std::optional<Range> parse_range(std::string_view text, uint32_t least, uint32_t most, bool may_be_open = false) {
  const size_t hyphen = text.find('-');
  const auto first = parse_number<uint32_t>(text.substr(0, hyphen), least, most);
  if (!first || hyphen == std::string_view::npos) return first ? std::optional(Range{*first, *first}) : std::nullopt;
  if (may_be_open && hyphen + 1 == text.size()) return Range{*first, UINT32_MAX};
  const auto last = parse_number<uint32_t>(text.substr(hyphen + 1), least, most);
  return last ? std::optional(Range{*first, *last}) : std::nullopt;
}

const FieldError kReversed = {"the range ends before it begins", "swap its ends"};

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
  // Port 0 alone is nobody's, and to keys it is no port; ranges may begin with it.
  const auto ports = parse_range(text, 0, UINT16_MAX);
  if (!ports || (ports->first == 0 && ports->last == 0)) {
    const std::string key(field.key);
    return FieldError{"it must be a port from 1 to 65535, or a range",
                      "as in " + key + ": 443 or " + key + ": 8000-8010"};
  }
  if (ports->last < ports->first) return kReversed;
  flow.*kMember = PortRange{static_cast<uint16_t>(ports->first), static_cast<uint16_t>(ports->last)};
  return std::nullopt;
}

template <std::optional<PortRange> Flow::*kMember>
std::string print_ports(const Flow& flow) {
  return range_of((flow.*kMember)->first, (flow.*kMember)->last);
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

// The shortest IPv4 packet, and the longest whose header can say so: IPv6 with 65,535 bytes behind it.
constexpr uint32_t kShortest = 20, kShortestIpv6 = 40, kLongest = 40 + UINT16_MAX;

Problem parse_length(const Field&, std::string_view text, Flow& flow) {
  const auto range = parse_range(text, kShortest, kLongest, true);
  if (!range) {
    return FieldError{"it must be a length in bytes from 20 to 65575, a range, or an open range",
                      "of the IP packet, header included, as in length: 64, length: 64-128 or length: 200-"};
  }
  if (range->last < range->first) return kReversed;
  flow.length = weir_range32{range->first, range->last};
  return std::nullopt;
}

std::string print_length(const Flow& flow) {
  const auto& [first, last] = *flow.length;
  return last == UINT32_MAX ? std::to_string(first) + "-" : range_of(first, last);
}

Problem parse_dscp(const Field&, std::string_view text, Flow& flow) {
  uint64_t values = 0;
  bool is_reversed = false;
  const bool all = each_part(text, ',', [&](std::string_view part) {
    const auto range = parse_range(part, 0, 63);
    if (!range) return false;
    is_reversed |= range->last < range->first;
    for (uint32_t value = range->first; value <= range->last; value++) values |= uint64_t{1} << value;
    return true;
  });
  if (!all)
    return FieldError{"it must be a number from 0 to 63, a range, or a list of them",
                      "as in dscp: 46, dscp: 10-14 or dscp: [46, 10-14]"};
  if (is_reversed) return kReversed;
  flow.dscp = weir_one_of{values | flow.dscp.value_or(weir_one_of{0}).values};
  return std::nullopt;
}

std::string print_dscp(const Flow& flow) {
  std::string text;
  for (unsigned first = 0; first < 64; first++) {
    if ((flow.dscp->values >> first & 1) == 0) continue;
    unsigned last = first;
    while (last < 63 && (flow.dscp->values >> (last + 1) & 1) != 0) last++;
    text += (text.empty() ? "" : ",") + range_of(first, last);
    first = last;
  }
  return text;
}

struct FragmentWord {
  std::string_view word;
  uint64_t values;
};
constexpr FragmentWord kFragmentWords[] = {
    {"none", 1 << WEIR_FRAGMENT_NONE},
    {"first", 1 << WEIR_FRAGMENT_FIRST},
    {"later", 1 << WEIR_FRAGMENT_LATER},
    {"any", 1 << WEIR_FRAGMENT_FIRST | 1 << WEIR_FRAGMENT_LATER},
};

Problem parse_fragment(const Field&, std::string_view text, Flow& flow) {
  for (const auto& [word, values] : kFragmentWords) {
    if (text != word) continue;
    flow.fragment = weir_one_of{values};
    return std::nullopt;
  }
  return FieldError{"it must be none, first, later or any",
                    "none: no fragment; first: offset 0 and more to come; later: an offset; any: first or later"};
}

std::string print_fragment(const Flow& flow) {
  for (const auto& [word, values] : kFragmentWords) {
    if (flow.fragment->values == values) return std::string(word);
  }
  return "of another version";
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
     .print = print_protocol,
     .help = "The protocol: a name, as in tcp, or a number from 0 to 255."},
    {.asks = WEIR_ASKS_SPORT,
     .key = "sport",
     .inner = "",
     .label = "sport",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::sport>,
     .parse = parse_ports<&Flow::sport>,
     .print = print_ports<&Flow::sport>,
     .help = "The source port, as in 443, or a range of them, as in 8000-8010.",
     .pattern = "[0-9]+(-[0-9]+)?"},
    {.asks = WEIR_ASKS_DPORT,
     .key = "dport",
     .inner = "",
     .label = "dport",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::dport>,
     .parse = parse_ports<&Flow::dport>,
     .print = print_ports<&Flow::dport>,
     .help = "The destination port, as in 443, or a range of them, as in 8000-8010.",
     .pattern = "[0-9]+(-[0-9]+)?"},
    {.asks = WEIR_ASKS_ICMP_TYPE,
     .key = "icmp",
     .inner = "type",
     .label = "icmp-type",
     .form = FieldForm::number,
     .is_asked = asked<&Flow::icmp_type>,
     .parse = parse_byte<&Flow::icmp_type>,
     .print = print_byte<&Flow::icmp_type>,
     .help = "The header of ICMP or ICMPv6.",
     .inner_help = "Its type.",
     .example = kIcmpExample},
    {.asks = WEIR_ASKS_ICMP_CODE,
     .key = "icmp",
     .inner = "code",
     .label = "icmp-code",
     .form = FieldForm::number,
     .is_asked = asked<&Flow::icmp_code>,
     .parse = parse_byte<&Flow::icmp_code>,
     .print = print_byte<&Flow::icmp_code>,
     .help = "The header of ICMP or ICMPv6.",
     .inner_help = "Its code.",
     .example = kIcmpExample},
    {.asks = WEIR_ASKS_TCP_FLAGS,
     .key = "tcp_flags",
     .inner = "",
     .label = "tcp-flags",
     .form = FieldForm::bits,
     .is_asked = asked<&Flow::tcp_flags>,
     .parse = parse_masked<&Flow::tcp_flags>,
     .print = print_tcp_flags,
     .help = "Flags of TCP: those of `mask` that are set are those of `set`.",
     .example = "as in tcp_flags: {set: [syn], mask: [syn, ack]}: SYN is set, ACK is not",
     .names = tcp_flag_names,
     .name_noun = "a TCP flag"},
    {.asks = WEIR_ASKS_LENGTH,
     .key = "length",
     .inner = "",
     .label = "length",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::length>,
     .parse = parse_length,
     .print = print_length,
     .help = "Bytes of the IP packet, its header included: 64, 64-128 or 200- (that many or more).",
     .pattern = "[0-9]+(-([0-9]+)?)?"},
    {.asks = WEIR_ASKS_DSCP,
     .key = "dscp",
     .inner = "",
     .label = "dscp",
     .form = FieldForm::list,
     .is_asked = asked<&Flow::dscp>,
     .parse = parse_dscp,
     .print = print_dscp,
     .help = "The DSCP, 0 to 63: a value, a range such as 10-14, or a sequence of them.",
     .pattern = "[0-9]+(-[0-9]+)?",
     .example = "as in dscp: 46 or dscp: [46, 10-14]"},
    {.asks = WEIR_ASKS_FRAGMENT,
     .key = "fragment",
     .inner = "",
     .label = "fragment",
     .form = FieldForm::scalar,
     .is_asked = asked<&Flow::fragment>,
     .parse = parse_fragment,
     .print = print_fragment,
     .help =
         "none: it is no fragment. first: the first of several. later: one that is not the first. any: first or later.",
     .pattern = "none|first|later|any"},
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

std::optional<Contradiction> contradiction_in(const Flow& flow) {
  const unsigned needs = needs_of(fields_asked(flow));
  if (flow.fragment && flow.fragment->values == 1 << WEIR_FRAGMENT_LATER) {
    for (const Carried& part : kCarried) {
      if ((needs & part.needs) == 0) continue;
      return Contradiction{find_field("fragment"), std::string("later fragments have no ") + part.absent,
                           std::string("keep `fragment: later` or ") + part.keep};
    }
  }
  const uint32_t shortest = (flow.family == 6 ? kShortestIpv6 : kShortest) + weir_bytes_with(needs);
  if (flow.length && flow.length->last < shortest) {
    return Contradiction{find_field("length"),
                         "packets with all else that it names have " + std::to_string(shortest) + " bytes or more",
                         "the IP header counts, too: 20 bytes of IPv4 at least, 40 of IPv6"};
  }
  return std::nullopt;
}

std::span<const Carried> carried() {
  return kCarried;
}

}  // namespace weir::control
