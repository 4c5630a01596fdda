#include "control/sources/flowspec/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <bitset>
#include <optional>

#include "control/policy/model/fields.h"
#include "filter/format/packet.h"

namespace weir::control::flowspec {

namespace {

ValueRanges numbers_of(const Operator& one, uint64_t most) {
  ValueRanges ranges;
  if ((one.asks & kLess) != 0 && one.value > 0) ranges.push_back({0, std::min(one.value - 1, most)});
  if ((one.asks & kEqual) != 0 && one.value <= most) ranges.push_back({one.value, one.value});
  if ((one.asks & kGreater) != 0 && one.value < most) ranges.push_back({one.value + 1, most});
  return ranges;
}

// Sorts, and joins what overlaps or touches.
ValueRanges joined(ValueRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ValueRanges apart;
  for (const ValueRange& range : ranges) {
    if (!apart.empty() && range.first <= apart.back().last + 1) {
      apart.back().last = std::max(apart.back().last, range.last);
    } else {
      apart.push_back(range);
    }
  }
  return apart;
}

bool holds(const Operator& one, uint64_t bits) {
  const bool plain = (one.asks & kMatch) != 0 ? (bits & one.value) == one.value : (bits & one.value) != 0;
  return plain != ((one.asks & kInverted) != 0);
}

}  // namespace

ValueRanges common(const ValueRanges& a, const ValueRanges& b) {
  ValueRanges both;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const uint64_t first = std::max(a[i].first, b[j].first), last = std::min(a[i].last, b[j].last);
    if (first <= last) both.push_back({first, last});
    a[i].last < b[j].last ? i++ : j++;
  }
  return both;
}

ValueRanges numbers_of(const std::vector<Operator>& operators, uint64_t most) {
  ValueRanges all;
  for (size_t i = 0; i < operators.size();) {
    ValueRanges alternative = joined(numbers_of(operators[i], most));
    for (i++; i < operators.size() && operators[i].is_and; i++) {
      alternative = common(alternative, joined(numbers_of(operators[i], most)));
    }
    all.insert(all.end(), alternative.begin(), alternative.end());
  }
  return joined(std::move(all));
}

bool holds_for_bits(const std::vector<Operator>& operators, uint64_t bits) {
  for (size_t i = 0; i < operators.size();) {
    bool alternative = holds(operators[i], bits);
    for (i++; i < operators.size() && operators[i].is_and; i++) alternative = alternative && holds(operators[i], bits);
    if (alternative) return true;
  }
  return false;
}

std::vector<BitPattern> patterns_of(const std::bitset<256>& bytes) {
  if (bytes.all()) return {{0, 0}};
  // Every pattern that takes these bytes alone, widest first; then the next one that takes most of what is left.
  std::vector<BitPattern> possible;
  for (unsigned mask = 1; mask < 256; mask++) {
    for (unsigned set = mask;; set = (set - 1) & mask) {
      bool is_inside = true;
      const unsigned free = ~mask & 0xff;
      for (unsigned rest = free; is_inside; rest = (rest - 1) & free) {
        is_inside = bytes[set | rest];
        if (rest == 0) break;
      }
      if (is_inside) possible.push_back({static_cast<uint8_t>(set), static_cast<uint8_t>(mask)});
      if (set == 0) break;
    }
  }
  std::stable_sort(possible.begin(), possible.end(),
                   [](const auto& a, const auto& b) { return std::popcount(a.mask) < std::popcount(b.mask); });
  std::vector<BitPattern> chosen;
  std::bitset<256> left = bytes;
  while (left.any()) {
    const BitPattern* best = nullptr;
    size_t most = 0;
    for (const BitPattern& pattern : possible) {
      if (most >= size_t{1} << (8 - std::popcount(pattern.mask))) break;  // the others are no wider
      size_t n = 0;
      const unsigned free = ~pattern.mask & 0xffu;
      for (unsigned rest = free;; rest = (rest - 1) & free) {
        n += left[pattern.set | rest];
        if (rest == 0) break;
      }
      if (n <= most) continue;
      most = n;
      best = &pattern;
    }
    chosen.push_back(*best);
    const unsigned free = ~best->mask & 0xffu;
    for (unsigned rest = free;; rest = (rest - 1) & free) {
      left[best->set | rest] = false;
      if (rest == 0) break;
    }
  }
  return chosen;
}

namespace {

constexpr uint64_t kMostPort = UINT16_MAX;
constexpr uint32_t kShortest = 20, kIpv6Header = 40;  // no IP packet is shorter than the first

// Bits of component tcp_flags, bytes 13 and 14 of TCP's header (RFC 8955, section 4.2.2.9).
constexpr uint64_t kReservedFlags = 0x0f00;  // the data offset above them counts as 0

// What weir's `fragment` calls a packet, by the bits that FlowSpec gives it.
struct FragmentCase {
  weir_fragment kind;
  uint64_t bits;
};
constexpr FragmentCase kFragmentCases[] = {
    {WEIR_FRAGMENT_NONE, 0},
    {WEIR_FRAGMENT_FIRST, kFirstFragment},
    {WEIR_FRAGMENT_LATER, kIsFragment},
    {WEIR_FRAGMENT_LATER, kIsFragment | kLastFragment},
};

constexpr const char* kMatchesNothing = "no packet can match it";

template <class Value>
using Choices = std::vector<std::optional<Value>>;  // alternatives; one that is empty asks nothing

// The values of one rule's components, each for itself.
class Splitter {
 public:
  explicit Splitter(const Rule& rule) : rule_(rule) {}

  Result<std::vector<Flow>> split() {
    Flow flow;
    flow.family = rule_.family == Family::v4 ? 4 : 6;
    if (Result<void> ok = read_addresses(flow); !ok) return Error{ok.error()};
    for (const auto read : {&Splitter::read_protocols, &Splitter::read_ports, &Splitter::read_icmp,
                            &Splitter::read_tcp_flags, &Splitter::read_length, &Splitter::read_fragment}) {
      if (Result<void> ok = (this->*read)(); !ok) return Error{ok.error()};
    }
    if (Result<void> ok = read_dscp(flow); !ok) return Error{ok.error()};
    if (rule_.find(Type::flow_label) != nullptr)
      return Error{"component flow-label: weir does not look at flow labels"};
    return product(flow);
  }

 private:
  ValueRanges numbers(Type type, uint64_t most) const {
    const Component* component = rule_.find(type);
    return component == nullptr ? ValueRanges{{0, most}} : numbers_of(component->operators, most);
  }

  Result<void> read_addresses(Flow& flow) const {
    const unsigned width = address_bits(rule_.family);
    for (const auto& [type, range] : {std::pair(Type::source, &flow.src), {Type::destination, &flow.dst}}) {
      const Component* component = rule_.find(type);
      if (component == nullptr) continue;
      if (component->offset_bits != 0) {
        return Error{fmt::format("component {} begins at bit {}: weir's prefixes begin at bit 0", name_of(type),
                                 component->offset_bits)};
      }
      const Ipv6 others = component->prefix_bits == width ? 0 : ~Ipv6{0} >> (128 - width + component->prefix_bits);
      *range = AddressRange{component->address, component->address | others};
    }
    // Entries without an address are of both families, rules of one.
    if (!flow.src && !flow.dst) flow.dst = AddressRange{0, ~Ipv6{0} >> (128 - width)};
    return {};
  }

  // Some components are of packets of some protocols alone (RFC 8955, sections 4.2.2.4 to 4.2.2.9; RFC 8956, section
  // 3.4).
  Result<void> read_protocols() {
    std::bitset<256> protocols;
    for (const ValueRange& range : numbers(Type::protocol, 255)) {
      for (uint64_t value = range.first; value <= range.last; value++) protocols.set(value);
    }
    const auto keep = [&](std::initializer_list<uint8_t> those) {
      std::bitset<256> mask;
      for (const uint8_t protocol : those) mask.set(protocol);
      protocols &= mask;
    };
    if (rule_.find(Type::port) || rule_.find(Type::source_port) || rule_.find(Type::destination_port)) {
      keep({kProtocolTcp, kProtocolUdp});
    }
    if (rule_.find(Type::icmp_type) || rule_.find(Type::icmp_code)) {
      keep({rule_.family == Family::v4 ? kProtocolIcmp : kProtocolIcmpv6});
    }
    if (rule_.find(Type::tcp_flags)) keep({kProtocolTcp});
    if (protocols.none()) return Error{kMatchesNothing};
    if (protocols.all()) return {};
    protocols_.clear();
    for (size_t i = 0; i < protocols.size(); i++) {
      if (protocols[i]) protocols_.push_back(static_cast<weir_value>(i));
    }
    return {};
  }

  Result<void> read_ports() {
    const bool any_port = rule_.find(Type::port) != nullptr;
    const bool asks_source = rule_.find(Type::source_port) != nullptr;
    const bool asks_destination = rule_.find(Type::destination_port) != nullptr;
    if (!any_port && !asks_source && !asks_destination) return {};
    const ValueRanges either = numbers(Type::port, kMostPort);
    const ValueRanges source = numbers(Type::source_port, kMostPort);
    const ValueRanges destination = numbers(Type::destination_port, kMostPort);
    ports_.clear();
    const auto add = [&](const ValueRanges& sources, bool has_source, const ValueRanges& destinations,
                         bool has_destination) {
      for (const ValueRange& s : has_source ? sources : ValueRanges{{0, kMostPort}}) {
        for (const ValueRange& d : has_destination ? destinations : ValueRanges{{0, kMostPort}}) {
          Ports ports;
          if (has_source) ports.source = range_of(s);
          if (has_destination) ports.destination = range_of(d);
          ports_.push_back(ports);
        }
      }
    };
    if (any_port) {  // of either side
      if (either.size() * (source.size() + destination.size()) > kMostPort) return too_many(UINT64_MAX);
      add(common(source, either), true, destination, asks_destination);
      add(source, asks_source, common(destination, either), true);
    } else {
      if (source.size() * destination.size() > kMostPort) return too_many(UINT64_MAX);
      add(source, asks_source, destination, asks_destination);
    }
    if (ports_.empty()) return Error{kMatchesNothing};
    for (const Ports& ports : ports_) {
      for (const std::optional<PortRange>& range : {ports.source, ports.destination}) {
        if (range && range->last == 0) return Error{"ports: weir has no entry for port 0 alone"};
      }
    }
    return {};
  }

  Result<void> read_icmp() {
    for (const auto& [type, choices] : {std::pair(Type::icmp_type, &icmp_types_), {Type::icmp_code, &icmp_codes_}}) {
      if (rule_.find(type) == nullptr) continue;
      choices->clear();
      for (const ValueRange& range : numbers(type, 255)) {
        for (uint64_t value = range.first; value <= range.last; value++) {
          choices->push_back(static_cast<weir_value>(value));
        }
      }
      if (choices->empty()) return Error{kMatchesNothing};
    }
    return {};
  }

  Result<void> read_tcp_flags() {
    const Component* component = rule_.find(Type::tcp_flags);
    if (component == nullptr) return {};
    for (const Operator& one : component->operators) {
      if ((one.value & kReservedFlags) != 0) {
        return Error{fmt::format("component tcp-flags asks for bits 0x{:x}: weir looks at the lower eight flags",
                                 one.value & kReservedFlags)};
      }
    }
    std::bitset<256> flags;
    for (unsigned value = 0; value < 256; value++) flags[value] = holds_for_bits(component->operators, value);
    if (flags.none()) return Error{kMatchesNothing};
    tcp_flags_.clear();
    for (const BitPattern& pattern : patterns_of(flags)) {
      if (pattern.mask != 0) {
        tcp_flags_.push_back(weir_masked{pattern.set, pattern.mask});
        continue;
      }
      for (const uint8_t set : {uint8_t{0}, uint8_t{1}})
        tcp_flags_.push_back(weir_masked{set, 1});  // any flags, but there must be some
    }
    return {};
  }

  Result<void> read_length() {
    if (rule_.find(Type::length) == nullptr) return {};
    const uint64_t most = rule_.family == Family::v4 ? UINT16_MAX : kIpv6Header + UINT16_MAX;
    lengths_.clear();
    for (const ValueRange& range : numbers(Type::length, most)) {
      if (range.last < kShortest) continue;
      lengths_.push_back(weir_range32{std::max(static_cast<uint32_t>(range.first), kShortest),
                                      range.last == most ? UINT32_MAX : static_cast<uint32_t>(range.last)});
    }
    if (lengths_.empty()) return Error{kMatchesNothing};
    if (lengths_.size() == 1 && lengths_[0] == weir_range32{kShortest, UINT32_MAX}) lengths_[0] = std::nullopt;
    return {};
  }

  Result<void> read_dscp(Flow& flow) const {
    const Component* component = rule_.find(Type::dscp);
    if (component == nullptr) return {};
    uint64_t values = 0;
    for (const ValueRange& range : numbers_of(component->operators, 63)) {
      for (uint64_t value = range.first; value <= range.last; value++) values |= uint64_t{1} << value;
    }
    if (values == 0) return Error{kMatchesNothing};
    if (values != UINT64_MAX) flow.dscp = weir_one_of{values};
    return {};
  }

  Result<void> read_fragment() {
    const Component* component = rule_.find(Type::fragment);
    if (component == nullptr) return {};
    std::optional<bool> verdicts[3];  // by enum weir_fragment
    for (const FragmentCase& one : kFragmentCases) {
      for (const uint64_t more : {uint64_t{0}, kDontFragment}) {
        if (rule_.family == Family::v6 && more != 0) continue;  // that bit means nothing there
        const bool holds = holds_for_bits(component->operators, one.bits | more);
        std::optional<bool>& verdict = verdicts[one.kind];
        if (verdict && *verdict != holds) {
          return Error{
              "component fragment asks for the last fragment or for `don't fragment`: weir tells no fragment, the "
              "first one and a later one"};
        }
        verdict = holds;
      }
    }
    const bool none = *verdicts[WEIR_FRAGMENT_NONE], first = *verdicts[WEIR_FRAGMENT_FIRST],
               later = *verdicts[WEIR_FRAGMENT_LATER];
    if (none && first && later) return {};
    fragments_.clear();
    const auto add = [&](std::initializer_list<weir_fragment> kinds) {
      uint64_t values = 0;
      for (const weir_fragment kind : kinds) values |= uint64_t{1} << kind;
      fragments_.push_back(weir_one_of{values});
    };
    if (none) add({WEIR_FRAGMENT_NONE});
    if (first && later) add({WEIR_FRAGMENT_FIRST, WEIR_FRAGMENT_LATER});
    if (first != later) add({first ? WEIR_FRAGMENT_FIRST : WEIR_FRAGMENT_LATER});
    if (fragments_.empty()) return Error{kMatchesNothing};
    return {};
  }

  static Error too_many(uint64_t n) {
    return {fmt::format("it would be {} entries: a rule may become {}",
                        n == UINT64_MAX ? "very many" : std::to_string(n), kMostEntries)};
  }

  Result<std::vector<Flow>> product(const Flow& flow) const {
    uint64_t n = 1;
    for (const size_t choices : {protocols_.size(), ports_.size(), icmp_types_.size(), icmp_codes_.size(),
                                 tcp_flags_.size(), lengths_.size(), fragments_.size()}) {
      n *= choices;
      if (n > kMostEntries) return too_many(n);
    }
    std::vector<Flow> flows = {flow};
    multiply(flows, protocols_, [](Flow& each, const auto& value) { each.protocol = value; });
    multiply(flows, ports_, [](Flow& each, const Ports& ports) {
      each.sport = ports.source;
      each.dport = ports.destination;
    });
    multiply(flows, icmp_types_, [](Flow& each, const auto& value) { each.icmp_type = value; });
    multiply(flows, icmp_codes_, [](Flow& each, const auto& value) { each.icmp_code = value; });
    multiply(flows, tcp_flags_, [](Flow& each, const auto& value) { each.tcp_flags = value; });
    multiply(flows, lengths_, [](Flow& each, const auto& value) { each.length = value; });
    multiply(flows, fragments_, [](Flow& each, const auto& value) { each.fragment = value; });
    flows.erase(
        std::remove_if(flows.begin(), flows.end(), [](const Flow& each) { return contradiction_in(each).has_value(); }),
        flows.end());
    if (flows.empty()) return Error{kMatchesNothing};
    return flows;
  }

  template <class Choice, class Set>
  static void multiply(std::vector<Flow>& flows, const std::vector<Choice>& choices, Set set) {
    std::vector<Flow> more;
    for (const Flow& flow : flows) {
      for (const Choice& choice : choices) set(more.emplace_back(flow), choice);
    }
    flows = std::move(more);
  }

  static PortRange range_of(const ValueRange& range) {
    return {static_cast<uint16_t>(range.first), static_cast<uint16_t>(range.last)};
  }

  struct Ports {
    std::optional<PortRange> source, destination;
  };

  const Rule& rule_;
  Choices<weir_value> protocols_ = {std::nullopt}, icmp_types_ = {std::nullopt}, icmp_codes_ = {std::nullopt};
  std::vector<Ports> ports_ = {{}};
  Choices<weir_masked> tcp_flags_ = {std::nullopt};
  Choices<weir_range32> lengths_ = {std::nullopt};
  Choices<weir_one_of> fragments_ = {std::nullopt};
};

}  // namespace

Result<std::vector<Flow>> entries_of(const Rule& rule) {
  return Splitter(rule).split();
}

}  // namespace weir::control::flowspec
