#include "control/tell/answer/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <iterator>
#include <type_traits>
#include <vector>

#include "common/clock.h"
#include "control/policy/model/fields.h"
#include "control/policy/model/packet.h"
#include "filter/format/frame_rules.h"

namespace weir::control {

// ------------------------------------------------------------------------------------------------ numbers and times

std::string count(uint64_t n) {
  std::string text = std::to_string(n);
  for (size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::string bytes(uint64_t n) {
  if (n < 1024) return fmt::format("{} B", n);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(n) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(units); unit++) value /= 1024;
  return fmt::format("{:.1f} {}", value, units[unit]);
}

std::string milliseconds(double ms) {
  if (ms >= 10'000) return fmt::format("{:.1f} s", ms / 1000);
  return ms >= 100 ? fmt::format("{:.0f} ms", ms)
         : ms >= 1 ? fmt::format("{:.1f} ms", ms)
                   : fmt::format("{:.2f} ms", ms);
}

std::string percent(double fraction) {
  return fraction == 0 ? "0 %" : fmt::format("{:.3g} %", fraction * 100);
}

std::string duration(uint64_t seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 2 * 86400) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

std::string age(int64_t unix_s) {
  if (unix_s == 0) return "never";
  return duration(static_cast<uint64_t>(std::max<int64_t>(0, unix_now() - unix_s))) + " ago";
}

std::string plural(uint64_t n, const char* noun) {
  return fmt::format("{} {}{}", count(n), noun, n == 1 ? "" : "s");
}

std::string plural(uint64_t n, const char* singular, const char* several) {
  return fmt::format("{} {}", count(n), n == 1 ? singular : several);
}

std::string scaled(double per_second) {
  constexpr const char* kUnits[] = {"", "k", "M", "G", "T"};
  size_t unit = 0;
  for (; per_second >= 999.5 && unit + 1 < std::size(kUnits); unit++) per_second /= 1000;
  const int digits = unit == 0 ? (per_second < 9.95 && per_second != std::floor(per_second) ? 1 : 0)
                               : (per_second < 9.995   ? 2
                                  : per_second < 99.95 ? 1
                                                       : 0);
  const std::string value = fmt::format("{:.{}f}", per_second, digits);
  return unit == 0 ? value : value + " " + kUnits[unit];
}

// ---------------------------------------------------------------------------------------------------------- packets

namespace {

constexpr const char* kHint =
    "hint: give a packet as in src 10.0.0.1 dst 203.0.113.9 proto tcp sport 40000 dport 443, one value each; or "
    "an address, or address:port ([v6]:port)";
constexpr uint32_t kLongestIpv4 = UINT16_MAX, kLongestIpv6 = 40 + UINT16_MAX;  // that a header can say

// What asks for this value alone, of each kind of filter/format/fields.h.
template <class Kind>
Kind asks_only(unsigned value) {
  if constexpr (std::is_same_v<Kind, weir_one_of>) {
    return {uint64_t{1} << (value & 63)};
  } else if constexpr (std::is_same_v<Kind, weir_masked>) {
    return {static_cast<uint8_t>(value), UINT8_MAX};
  } else if constexpr (std::is_same_v<Kind, weir_value>) {
    return static_cast<weir_value>(value);
  } else {
    const auto end = static_cast<decltype(Kind::first)>(value);
    return {end, end};
  }
}

// The least value that is asked for: the only one, or there are several.
template <class Kind>
unsigned only_asked(const Kind& asked) {
  if constexpr (std::is_same_v<Kind, weir_one_of>) {
    return static_cast<unsigned>(std::countr_zero(asked.values));
  } else if constexpr (std::is_same_v<Kind, weir_masked>) {
    return asked.set;
  } else if constexpr (std::is_same_v<Kind, weir_value>) {
    return asked;
  } else {
    return asked.first;
  }
}

bool asks_for_one_packet(const Flow& flow) {
#define WEIR_IS_ONE(name, NAME, kind, needs, member, order) \
  if (flow.name && *flow.name != asks_only<weir_##kind>(only_asked(*flow.name))) return false;
  WEIR_FIELDS(WEIR_IS_ONE)
#undef WEIR_IS_ONE
  return true;
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  std::vector<std::string_view> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return words;
    words.push_back(text.substr(0, text.find_first_of(kBlanks)));
    text.remove_prefix(words.back().size());
  }
}

Error wrong(std::string_view what) {
  return Error{fmt::format("{}\n{}", what, kHint)};
}

// The family, or 0: it is no address.
uint8_t read_address(std::string_view text, std::optional<AddressRange>& address) {
  if (const auto v4 = parse_ipv4(text)) {
    address = {*v4, *v4};
    return 4;
  }
  if (const auto v6 = parse_ipv6(text)) address = {*v6, *v6};
  return address ? 6 : 0;
}

// What is wrong with the value; empty: nothing.
std::string read_value(const Field& field, std::string_view text, Flow& flow) {
  std::string value(text);
  // Port 0 is a port of packets, though no entry may name it alone.
  const bool is_port = (needs_of(field.asks) & WEIR_HAS_PORTS) != 0;
  if (is_port && value == "0") {
    (field.asks == WEIR_ASKS_SPORT ? flow.sport : flow.dport) = PortRange{0, 0};
    return "";
  }
  // Names of bits alone say all bits: these are set, the others are not.
  const bool are_bits = field.form == FieldForm::bits && text.find('/') == std::string_view::npos;
  const std::string every_bit = are_bits ? bit_names(UINT8_MAX, field.names()) : "";
  if (are_bits) value += "/" + every_bit;
  if (const auto error = field.parse(field, value, flow)) {
    if (is_port) return "it must be a port from 0 to 65535";
    if (!are_bits) return error->reason;
    return fmt::format("it must be {}, several with commas between them, or none; there are {}", field.name_noun,
                       every_bit);
  }
  return asks_for_one_packet(flow) ? "" : "a packet has one value";
}

// A flow that asks for one packet.
Result<Flow> read_flow(std::string_view text) {
  Flow flow;
  const std::vector<std::string_view> words = words_of(text);
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string_view name = words[i];
    auto* address = name == "src" ? &flow.src : name == "dst" ? &flow.dst : nullptr;
    const auto field =
        std::find_if(fields().begin(), fields().end(), [&](const Field& each) { return each.label == name; });
    if (address == nullptr && field == fields().end()) {
      std::string known = "src, dst";
      for (const Field& each : fields()) known += fmt::format(", {}", each.label);
      return wrong(fmt::format("`{}` is no field of a packet; there are {}", name, known));
    }
    if (address != nullptr ? address->has_value() : field->is_asked(flow)) {
      return wrong(fmt::format("`{}` is given twice", name));
    }
    if (i + 1 == words.size()) return wrong(fmt::format("`{}` has no value", name));
    const uint8_t family = address != nullptr ? read_address(words[i + 1], *address) : flow.family;
    const std::string problem = address == nullptr ? read_value(*field, words[i + 1], flow)
                                : family == 0      ? "it must be an address"
                                                   : "";
    if (!problem.empty()) return wrong(fmt::format("`{}` is `{}`: {}", name, words[i + 1], problem));
    if (flow.family != 0 && family != flow.family) return wrong("`src` and `dst` are of different families");
    flow.family = family;
  }
  return flow;
}

// Empty: such a packet exists.
std::string impossible(const Flow& flow) {
  if (!flow.src || !flow.dst) {
    return fmt::format("a packet has both addresses: `{}` is missing", !flow.src ? "src" : "dst");
  }
  for (const Field& field : fields()) {
    const unsigned needs = field.is_asked(flow) ? needs_of(field.asks) : 0;
    for (const Carried& part : carried()) {
      if ((needs & part.needs) == 0) continue;
      if (!flow.protocol) return fmt::format("`proto` is missing: `{}` depends on it", field.label);
      if ((needs & ~weir_carries(*flow.protocol)) != 0) {
        return fmt::format("packets of this protocol have no {}", part.absent);
      }
    }
  }
  if (const auto contradiction = contradiction_in(flow)) return contradiction->reason;
  const uint32_t longest = flow.family == 4 ? kLongestIpv4 : kLongestIpv6;
  if (flow.length && flow.length->first > longest) return fmt::format("its length is {} bytes at most", longest);
  return "";
}

// Bits for a protocol or a port that the text leaves out (control/policy/model/packet.h).
uint8_t lacking(const Flow& flow) {
  if (!flow.protocol) return kLacksProtocol;
  if (flow.sport.has_value() == flow.dport.has_value()) return 0;
  return flow.sport ? kLacksDport : kLacksSport;
}

// Protocol 0 is one, and so is a 0 of what a header carries. A length of 0 is none.
bool is_always_told(unsigned asks) {
  return asks == WEIR_ASKS_PROTOCOL || needs_of(asks) != 0;
}

// Of a flow that asks for one packet.
std::string value_in(const Field& field, const Flow& flow) {
  std::string value = field.print(flow);
  if (field.form == FieldForm::bits) value.resize(value.find('/'));  // behind it stands every bit
  return value;
}

}  // namespace

Result<weir_packet> parse_packet(std::string_view text) {
  const Result<Flow> flow = read_flow(text);
  if (!flow) return Error{flow.error()};
  if (const std::string why = impossible(*flow); !why.empty()) return wrong(why);
  weir_packet packet = {};
  packet.family = flow->family;
  packet.has = static_cast<uint8_t>(needs_of(fields_asked(*flow)) | lacking(*flow));
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    const Ipv6 address = (side == WEIR_SIDE_SOURCE ? flow->src : flow->dst)->first;
    packet.family == 4 ? set_address(packet, side, static_cast<Ipv4>(address)) : set_address(packet, side, address);
  }
#define WEIR_STORE(name, NAME, kind, needs, member, order) \
  if (flow->name) store_member(packet.member, only_asked(*flow->name));
  WEIR_FIELDS(WEIR_STORE)
#undef WEIR_STORE
  return packet;
}

std::string packet_text(const weir_packet& packet) {
  const auto address = [&](weir_side side) {
    return packet.family == 4 ? to_string(address_of<Ipv4>(packet, side)) : to_string(address_of<Ipv6>(packet, side));
  };
  std::string text = fmt::format("src {} dst {}", address(WEIR_SIDE_SOURCE), address(WEIR_SIDE_DESTINATION));
  Flow flow;
  // Without a bit of `has`, 0 is what a packet has whose text leaves the field out.
#define WEIR_TELL(name, NAME, kind, needs, member, order)                                    \
  if ((packet.has & (needs)) == (needs) && (asks_in_vain(packet) & WEIR_ASKS_##NAME) == 0 && \
      (is_always_told(WEIR_ASKS_##NAME) || load_member(packet.member) != 0))                 \
    flow.name = asks_only<weir_##kind>(load_member(packet.member));
  WEIR_FIELDS(WEIR_TELL)
#undef WEIR_TELL
  for (const Field& field : fields()) {
    if (field.is_asked(flow)) text += fmt::format(" {} {}", field.label, value_in(field, flow));
  }
  return text;
}

std::vector<std::string> field_values(const weir_packet& packet) {
  Flow flow;
#define WEIR_ASK(name, NAME, kind, needs, member, order) \
  if ((packet.has & (needs)) == (needs)) flow.name = asks_only<weir_##kind>(load_member(packet.member));
  WEIR_FIELDS(WEIR_ASK)
#undef WEIR_ASK
  std::vector<std::string> values;
  for (const Field& field : fields()) values.push_back(field.is_asked(flow) ? value_in(field, flow) : "");
  return values;
}

bool is_number(const Field& field) {
  Flow flow;
#define WEIR_ASK_FOR_ONE(name, NAME, kind, needs, member, order) flow.name = asks_only<weir_##kind>(1);
  WEIR_FIELDS(WEIR_ASK_FOR_ONE)
#undef WEIR_ASK_FOR_ONE
  return value_in(field, flow) == "1";
}

}  // namespace weir::control
