// Flows, proven on packets made from them: each matches as it should, and changed in one field matches what the flows
// say one by one, in their own words.

#include <fmt/format.h>

#include <algorithm>

#include "control/compile/prove/lookup.h"
#include "control/compile/prove/prove.h"
#include "control/compile/prove/split_mix.h"
#include "control/compile/prove/verdict.h"
#include "control/model/range_text.h"

namespace weir::control {
namespace {

constexpr uint64_t kBeforeAnyExpiry = 0, kAfterAllExpiry = UINT64_MAX;
// Comparisons with single flows that the changed packets may cost: some 0.1 s.
constexpr size_t kMaxComparisons = 10'000'000;

bool lies_in(Ipv6 address, const std::optional<AddressRange>& range) {
  return !range || (range->first <= address && address <= range->last);
}

bool lies_in(uint16_t port, const std::optional<PortRange>& range) {
  return !range || (range->first <= port && port <= range->last);
}

// A packet in host order, and as planes see it.
struct Sample {
  Ipv6 address[2];
  uint16_t port[2];
  weir_packet packet;

  void finish() {
    for (const int side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if (packet.family == 4) {
        packet.address[side][0] = __builtin_bswap32(static_cast<uint32_t>(address[side]));
      } else {
        packet.address[side][0] = __builtin_bswap64(static_cast<uint64_t>(address[side] >> 64));
        packet.address[side][1] = __builtin_bswap64(static_cast<uint64_t>(address[side]));
      }
      packet.port[side] = __builtin_bswap16(port[side]);
    }
  }
};

bool flow_matches(const Flow& flow, const Sample& sample, uint64_t now) {
  const weir_packet& packet = sample.packet;
  if (flow.family != 0 && flow.family != packet.family) return false;
  if (flow.expires != kNever && now >= flow.expires) return false;
  if (flow.protocol && *flow.protocol != packet.protocol) return false;
  if (!lies_in(sample.address[0], flow.src) || !lies_in(sample.address[1], flow.dst)) return false;
  if (flow.sport || flow.dport) {
    if ((packet.has & WEIR_HAS_PORTS) == 0) return false;
    if (!lies_in(sample.port[0], flow.sport) || !lies_in(sample.port[1], flow.dport)) return false;
  }
  if (flow.icmp_type || flow.icmp_code) {
    if ((packet.has & WEIR_HAS_ICMP) == 0) return false;
    if (flow.icmp_type.value_or(packet.icmp_type) != packet.icmp_type) return false;
    if (flow.icmp_code.value_or(packet.icmp_code) != packet.icmp_code) return false;
  }
  if (flow.tcp_mask == 0) return true;
  return (packet.has & WEIR_HAS_TCP_FLAGS) != 0 && (packet.tcp_flags & flow.tcp_mask) == flow.tcp_set;
}

class SampleMaker {
 public:
  explicit SampleMaker(uint64_t seed) : random_{seed} {}

  uint64_t below(uint64_t n) { return random_.next() % n; }

  // A packet that the flow matches, but for its expiry.
  Sample packet_of(const Flow& flow, uint8_t family) {
    constexpr uint8_t kIcmp = 1, kTcp = 6, kUdp = 17, kIcmpV6 = 58;
    Sample sample = {};
    weir_packet& packet = sample.packet;
    packet.family = family;
    sample.address[0] = address_in(flow.src, family);
    sample.address[1] = address_in(flow.dst, family);
    sample.port[0] = port_in(flow.sport);
    sample.port[1] = port_in(flow.dport);
    packet.tcp_flags = static_cast<uint8_t>((random_.next() & ~flow.tcp_mask) | flow.tcp_set);
    packet.icmp_type = flow.icmp_type.value_or(static_cast<uint8_t>(random_.next()));
    packet.icmp_code = flow.icmp_code.value_or(static_cast<uint8_t>(random_.next()));
    const bool icmp = flow.icmp_type || flow.icmp_code;
    packet.protocol = flow.protocol.value_or(icmp                 ? family == 4 ? kIcmp : kIcmpV6
                                             : flow.tcp_mask != 0 ? kTcp
                                             : below(2) == 0      ? kTcp
                                                                  : kUdp);
    if (icmp) packet.has |= WEIR_HAS_ICMP;
    if (packet.protocol == kTcp) packet.has |= WEIR_HAS_TCP_FLAGS | WEIR_HAS_PORTS;
    if (flow.sport || flow.dport || packet.protocol == kUdp) packet.has |= WEIR_HAS_PORTS;
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

  uint16_t port_in(const std::optional<PortRange>& range) {
    const PortRange from = range.value_or(PortRange{1, UINT16_MAX});
    return static_cast<uint16_t>(from.first + below(from.last - from.first + 1u));
  }

  SplitMix random_;
};

class FlowProof {
 public:
  FlowProof(const Policy& policy, const filter::SnapshotView& snapshot, const filter::Kernels& kernels, uint64_t seed)
      : policy_(policy), snapshot_(snapshot), kernels_(kernels), samples_(seed) {}

  Result<void> run() {
    size_t flows = 0;
    for (const List& list : policy_.lists) flows += list.flows.size();
    if (flows == 0) return {};
    const size_t changed_share = std::max<size_t>(1, flows * flows / kMaxComparisons);  // every so many flows
    size_t nth = 0;
    for (unsigned list = 0; list < policy_.lists.size(); list++) {
      for (const Flow& flow : policy_.lists[list].flows) {
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
        sample.port[side] = static_cast<uint16_t>(sample.port[side] + step);
        break;
      case 3:
        sample.packet.protocol = static_cast<uint8_t>(sample.packet.protocol + step);
        break;
      case 4:
        sample.packet.has = 0;  // a later fragment
        break;
      default:
        sample.packet.tcp_flags ^= static_cast<uint8_t>(1 << samples_.below(8));
        sample.packet.icmp_type = static_cast<uint8_t>(sample.packet.icmp_type + samples_.below(2));
        sample.packet.icmp_code = static_cast<uint8_t>(sample.packet.icmp_code + samples_.below(2));
    }
    sample.finish();
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
      for (const Flow& flow : policy_.lists[list].flows) {
        if (flow_matches(flow, sample, kAfterAllExpiry)) add_list(expected, list);
      }
    }
    const bool with_ports = (sample.packet.has & WEIR_HAS_PORTS) != 0;
    Matched sides[2];
    if (sample.packet.family == 4) {
      const Probe<Ipv4> probes[2] = {{static_cast<Ipv4>(sample.address[0]), sample.port[0]},
                                     {static_cast<Ipv4>(sample.address[1]), sample.port[1]}};
      look_up(snapshot_, kernels_, probes, with_ports, sides);
    } else {
      const Probe<Ipv6> probes[2] = {{sample.address[0], sample.port[0]}, {sample.address[1], sample.port[1]}};
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
  const filter::SnapshotView& snapshot_;
  const filter::Kernels& kernels_;
  SampleMaker samples_;
};

}  // namespace

Result<void> prove_flows(const Policy& policy, const filter::SnapshotView& snapshot, const filter::Kernels& kernels,
                         uint64_t seed) {
  return FlowProof(policy, snapshot, kernels, seed).run();
}

Result<void> prove_flow_canary(const Policy& policy, const filter::SnapshotView& snapshot, const std::string& name,
                               uint8_t family, Ipv6 address) {
  const uint64_t now = snapshot.header().built_unix_s;
  SampleMaker samples(1);
  for (const List& list : policy.lists) {
    for (const Flow& flow : list.flows) {
      if (flow.family != family || list.action != WEIR_DROP || (flow.expires != kNever && flow.expires <= now))
        continue;
      for (const int side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
        const auto& range = side == WEIR_SIDE_SOURCE ? flow.src : flow.dst;
        if (!range || !lies_in(address, range)) continue;
        Sample sample = samples.packet_of(flow, family);
        sample.address[side] = address;
        sample.finish();
        if (judge(snapshot.header(), match(snapshot, sample.packet, now)).action != WEIR_DROP) continue;
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
