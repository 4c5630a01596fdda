// Flows, proven on packets made from them: each matches as it should, and changed in one field matches what the flows
// say one by one, in their own words.

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "control/compile/prove/chance.h"
#include "control/compile/prove/lookup.h"
#include "control/compile/prove/prove.h"
#include "control/compile/prove/verdict.h"
#include "control/policy/model/fields.h"
#include "control/policy/model/packet.h"
#include "control/policy/model/range_text.h"
#include "filter/format/frame_rules.h"

namespace weir::control {
namespace {

constexpr uint64_t kBeforeAnyExpiry = 0, kAfterAllExpiry = UINT64_MAX;
// Comparisons with single flows that the changed packets may cost: some 0.1 s.
constexpr size_t kMaxComparisons = 10'000'000;

bool lies_in(Ipv6 address, const std::optional<AddressRange>& range) {
  return !range || (range->first <= address && address <= range->last);
}

// What each kind of filter/format/fields.h asks for, said once more: does the value hold, and one that does.
bool holds(weir_value asked, unsigned value) {
  return value == asked;
}
bool holds(const weir_range16& asked, unsigned value) {
  return asked.first <= value && value <= asked.last;
}
bool holds(const weir_range32& asked, unsigned value) {
  return asked.first <= value && value <= asked.last;
}
bool holds(const weir_one_of& asked, unsigned value) {
  return value < 64 && (asked.values & uint64_t{1} << value) != 0;
}
bool holds(const weir_masked& asked, unsigned value) {
  return ((value ^ asked.set) & asked.mask) == 0;
}

unsigned some_value(weir_value asked, SplitMix&) {
  return asked;
}
unsigned some_value(const weir_range16& asked, SplitMix& random) {
  return asked.first + static_cast<unsigned>(random.next() % (asked.last - asked.first + 1u));
}
unsigned some_value(const weir_range32& asked, SplitMix& random) {
  return asked.first + static_cast<unsigned>(random.next() % (uint64_t{asked.last} - asked.first + 1));
}
unsigned some_value(const weir_one_of& asked, SplitMix& random) {
  uint64_t left = asked.values;
  for (uint64_t skip = random.next() % static_cast<uint64_t>(std::popcount(left)); skip > 0; skip--) left &= left - 1;
  return static_cast<unsigned>(std::countr_zero(left));
}
unsigned some_value(const weir_masked& asked, SplitMix& random) {
  return (static_cast<unsigned>(random.next()) & ~unsigned{asked.mask}) | asked.set;
}

// What a packet's value may be, whatever is asked: a mask.
template <class Kind>
constexpr unsigned kValues = UINT32_MAX;
template <>
constexpr unsigned kValues<weir_one_of> = 63;

// A packet as planes see it, and its addresses in host order.
struct Sample {
  Ipv6 address[2];
  weir_packet packet;

  void finish() {
    for (const int side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if (packet.family == 4) {
        packet.address[side][0] = __builtin_bswap32(static_cast<uint32_t>(address[side]));
      } else {
        packet.address[side][0] = __builtin_bswap64(static_cast<uint64_t>(address[side] >> 64));
        packet.address[side][1] = __builtin_bswap64(static_cast<uint64_t>(address[side]));
      }
    }
  }
  uint16_t port(weir_side side) const { return __builtin_bswap16(packet.port[side]); }
};

bool flow_matches(const Flow& flow, const Sample& sample, uint64_t now) {
  const weir_packet& packet = sample.packet;
  if (flow.family != 0 && flow.family != packet.family) return false;
  if (flow.expires != kNever && now >= flow.expires) return false;
  if (!lies_in(sample.address[0], flow.src) || !lies_in(sample.address[1], flow.dst)) return false;
#define WEIR_MATCHES(name, NAME, kind, needs, member, order) \
  if (flow.name && ((packet.has & (needs)) != (needs) || !holds(*flow.name, load_member(packet.member)))) return false;
  WEIR_FIELDS(WEIR_MATCHES)
#undef WEIR_MATCHES
  return true;
}

class SampleMaker {
 public:
  explicit SampleMaker(uint64_t seed) : random_{seed} {}

  uint64_t below(uint64_t n) { return random_.next() % n; }

  // A packet that the flow matches, but for its expiry.
  Sample packet_of(const Flow& flow, uint8_t family) {
    Sample sample = {};
    weir_packet& packet = sample.packet;
    packet.family = family;
    sample.address[0] = address_in(flow.src, family);
    sample.address[1] = address_in(flow.dst, family);
#define WEIR_CHOOSE(name, NAME, kind, needs, member, order)               \
  store_member(packet.member, flow.name ? some_value(*flow.name, random_) \
                                        : static_cast<unsigned>(random_.next()) & kValues<weir_##kind>);
    WEIR_FIELDS(WEIR_CHOOSE)
#undef WEIR_CHOOSE
    const unsigned needs = needs_of(fields_asked(flow));
    if (!flow.protocol) packet.protocol = protocol_with(needs, family);
    packet.has = static_cast<uint8_t>(weir_carries(packet.protocol) | needs);
    sample.finish();
    return sample;
  }

 private:
  Ipv6 address_in(const std::optional<AddressRange>& range, uint8_t family) {
    const Ipv6 any = Ipv6{random_.next()} << 64 | random_.next();
    if (!range) return family == 4 ? any & UINT32_MAX : any;
    switch (below(3)) {
      case 0:
        return range->first;
      case 1:
        return range->last;
      default:
        const Ipv6 count = range->last - range->first + 1;  // 0: all
        return count == 0 ? any : range->first + any % count;
    }
  }

  // TCP or UDP where either will do.
  uint8_t protocol_with(unsigned needs, uint8_t family) {
    const uint8_t usual[] = {kProtocolTcp, kProtocolUdp};
    const uint8_t other = family == 4 ? kProtocolIcmp : kProtocolIcmpv6;
    const uint8_t first = usual[below(2)];
    for (const uint8_t protocol : {first, kProtocolTcp, kProtocolUdp, other}) {
      if ((weir_carries(protocol) & needs) == needs) return protocol;
    }
    return first;
  }

  SplitMix random_;
};

class FlowProof {
 public:
  FlowProof(const Policy& policy, const Enforcing& snapshot, const filter::Kernels& kernels, uint64_t seed)
      : policy_(policy), snapshot_(snapshot), kernels_(kernels), samples_(seed) {}

  Result<void> run() {
    size_t flows = 0;
    for (const List& list : policy_.lists) flows += list.flows().size();
    if (flows == 0) return {};
    const size_t changed_share = std::max<size_t>(1, flows * flows / kMaxComparisons);  // every so many flows
    size_t nth = 0;
    for (unsigned list = 0; list < policy_.lists.size(); list++) {
      for (const Flow& flow : policy_.lists[list].flows()) {
        for (const uint8_t family : {uint8_t{4}, uint8_t{6}}) {
          if ((flow.family != 0 && flow.family != family) || flow.expires == 0) continue;
          Sample sample = samples_.packet_of(flow, family);
          if (auto ok = prove_found(list, flow, sample); !ok) return ok;
          if (nth++ % changed_share != 0) continue;
          change(sample);
          if (auto ok = prove_same(sample); !ok) return ok;
        }
      }
    }
    return {};
  }

 private:
  void change(Sample& sample) {
    const uint64_t side = samples_.below(2);
    const int step = samples_.below(2) == 0 ? 1 : -1;
    switch (samples_.below(6)) {
      case 0:
      case 1:
        sample.address[side] += static_cast<Ipv6>(step);
        if (sample.packet.family == 4) sample.address[side] &= UINT32_MAX;
        break;
      case 2:
        sample.packet.has = 0;  // a later fragment
        break;
      default:
        change_field(sample.packet, static_cast<weir_field>(samples_.below(WEIR_N_FIELDS)), step);
    }
    sample.finish();
  }

  void change_field(weir_packet& packet, weir_field field, int step) {
    // One bit, as flags and sets need, or one more or less, as ranges do.
    const unsigned bit = samples_.below(2) == 0 ? 1u << samples_.below(8) : 0;
    const auto changed = [&](unsigned value) { return bit != 0 ? value ^ bit : value + static_cast<unsigned>(step); };
    switch (field) {
#define WEIR_CHANGE(name, NAME, kind, needs, member, order) \
  case WEIR_FIELD_##NAME:                                   \
    return store_member(packet.member, changed(load_member(packet.member)) & kValues<weir_##kind>);
      WEIR_FIELDS(WEIR_CHANGE)
#undef WEIR_CHANGE
      case WEIR_N_FIELDS:
        break;
    }
  }

  Result<void> prove_found(unsigned list, const Flow& flow, const Sample& sample) const {
    const weir_set matched = match(snapshot_, sample.packet, kBeforeAnyExpiry);
    const bool found = has_list(matched, list);
    const bool passes =
        policy_.lists[list].action != WEIR_PASS || judge(snapshot_.header(), matched).action == WEIR_PASS;
    if (found && passes) return {};
    return Error{fmt::format("proof failed: list {}, entry {}:{} does not {} a packet made from it",
                             policy_.lists[list].name, policy_.path, flow.line, found ? "pass" : "match")};
  }

  // The lists of the flows, and those of entries that ask for no more than address and port.
  Result<void> prove_same(const Sample& sample) const {
    weir_set expected = {};
    for (unsigned list = 0; list < policy_.lists.size(); list++) {
      for (const Flow& flow : policy_.lists[list].flows()) {
        if (flow_matches(flow, sample, kAfterAllExpiry)) add_list(expected, list);
      }
    }
    const bool with_ports = (sample.packet.has & WEIR_HAS_PORTS) != 0;
    Matched sides[2];
    if (sample.packet.family == 4) {
      const Probe<Ipv4> probes[2] = {{static_cast<Ipv4>(sample.address[0]), sample.port(WEIR_SIDE_SOURCE)},
                                     {static_cast<Ipv4>(sample.address[1]), sample.port(WEIR_SIDE_DESTINATION)}};
      look_up(snapshot_, kernels_, probes, with_ports, sides);
    } else {
      const Probe<Ipv6> probes[2] = {{sample.address[0], sample.port(WEIR_SIDE_SOURCE)},
                                     {sample.address[1], sample.port(WEIR_SIDE_DESTINATION)}};
      look_up(snapshot_, kernels_, probes, with_ports, sides);
    }
    expected = expected | sides[0].source | sides[1].destination;
    const weir_set matched = match(snapshot_, sample.packet, kAfterAllExpiry);
    for (unsigned list = 0; list < policy_.lists.size(); list++) {
      if (has_list(matched, list) == has_list(expected, list)) continue;
      return Error{fmt::format("proof failed: list {} {} a packet that its entries {}", policy_.lists[list].name,
                               has_list(matched, list) ? "matches" : "does not match",
                               has_list(matched, list) ? "do not name" : "name")};
    }
    return {};
  }

  const Policy& policy_;
  const Enforcing snapshot_;
  const filter::Kernels& kernels_;
  SampleMaker samples_;
};

}  // namespace

Result<void> prove_flows(const Policy& policy, const Enforcing& snapshot, const filter::Kernels& kernels,
                         uint64_t seed) {
  return FlowProof(policy, snapshot, kernels, seed).run();
}

bool lasting_flow_matches(const List& list, const weir_packet& packet) {
  Sample sample = {{}, packet};
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    sample.address[side] = packet.family == 4 ? Ipv6{address_of<Ipv4>(packet, side)} : address_of<Ipv6>(packet, side);
  }
  return std::any_of(list.flows().begin(), list.flows().end(),
                     [&](const Flow& flow) { return flow_matches(flow, sample, kAfterAllExpiry); });
}

Result<void> prove_flow_canary(const Policy& policy, const Enforcing& snapshot, const std::string& name, uint8_t family,
                               Ipv6 address) {
  const uint64_t now = snapshot.header().built_unix_s;
  SampleMaker samples(1);
  for (const List& list : policy.lists) {
    for (const Flow& flow : list.flows()) {
      if (flow.family != family || list.action != WEIR_DROP || (flow.expires != kNever && flow.expires <= now))
        continue;
      for (const int side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
        const auto& range = side == WEIR_SIDE_SOURCE ? flow.src : flow.dst;
        if (!range || !lies_in(address, range)) continue;
        Sample sample = samples.packet_of(flow, family);
        sample.address[side] = address;
        sample.finish();
        const weir_set matched =
            match(snapshot, sample.packet, now, WEIR_AS_SOURCE | WEIR_AS_DESTINATION, Gates::left_out);
        if (judge(snapshot.header(), matched).action != WEIR_DROP) continue;
        return Error{
            fmt::format("canary {} would drop as {}: list {}, entry {} ({}:{})\nhint: put it into a pass list or "
                        "policy.own, or take the entry out",
                        name, side == WEIR_SIDE_SOURCE ? "source" : "destination", list.name, flow_text(flow),
                        policy.path, flow.line)};
      }
    }
  }
  return {};
}

}  // namespace weir::control
