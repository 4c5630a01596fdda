// Random policies, and random changes of them: what a snapshot, or one with its overlay, answers, against the reference
// classifier.

#include <algorithm>
#include <cstring>
#include <span>

#include "common/digest.h"
#include "common/files.h"
#include "control/compile/overlay.h"
#include "control/compile/prove/chance.h"
#include "control/compile/prove/lookup.h"
#include "control/compile/prove/verdict.h"
#include "control/policy/model/packet.h"
#include "filter/format/buckets.h"
#include "filter/format/frame_rules.h"
#include "filter/format/rules.h"
#include "filter/probe/dispatch.h"
#include "filter/read/overlay.h"
#include "tests/reference/classifier.h"
#include "tests/rounds.h"
#include "tests/unit/control/compile/build_unproven.h"
#include "tests/unit/control/compile/make_policy.h"

namespace weir::control {
namespace {

constexpr int kPolicies = rounds(1000);
constexpr int kPackets = 256;  // of each policy

// Addresses crowd into few bits, so that entries nest and overlap and packets hit them often.
struct World {
  SplitMix random;
  unsigned v4_bits;  // 10.0.0.0 and this many low bits
  unsigned v6_bits;  // 2001:db8:: and this many bits below bit v6_shift
  unsigned v6_shift;

  unsigned below(unsigned n) { return static_cast<unsigned>(random.next() % n); }
  Ipv4 address(Ipv4) { return (10u << 24) + below(1u << v4_bits); }
  Ipv6 address(Ipv6) {
    Ipv6 address = Ipv6{0x20010db8} << 96;
    address += Ipv6{below(1u << v6_bits)} << v6_shift;
    return address + below(4);
  }
  unsigned length(Ipv4) { return below(3) == 0 ? 32 : 33 - 1 - below(v4_bits + 2); }
  unsigned length(Ipv6) { return below(3) == 0 ? 128 : 128 - std::min(128u, below(v6_bits + v6_shift + 2)); }
  uint16_t port() {
    const uint16_t ports[] = {53, 80, 443, 65535};
    return ports[below(4)];
  }
};

template <class Addr>
Entry<Addr> random_entry(World& world) {
  const auto directions = static_cast<uint8_t>(1 + world.below(3));
  const Addr address = world.address(Addr{});
  const unsigned kind = world.below(8);
  if (kind == 0) return {address, address, 1, world.port(), directions, 0};
  if (kind == 1) {
    const Addr other = world.address(Addr{});
    return {std::min(address, other), std::max(address, other), 1, 0, directions, 0};
  }
  const unsigned bits = world.length(Addr{});
  const Addr first = address & prefix_mask<Addr>(bits);
  return {first, static_cast<Addr>(first | low_bits<Addr>(kAddrBits<Addr> - bits)), 1, 0, directions, 0};
}

Policy random_policy(World& world) {
  Policy policy = make_policy({});
  policy.default_action = world.below(2) == 0 ? WEIR_PASS : WEIR_DROP;
  const unsigned n_lists = world.below(20) == 0 ? 256 : 1 + world.below(6);
  for (unsigned l = 0; l < n_lists; l++) {
    List list = make_list("l" + std::to_string(l), world.below(3) == 0 ? WEIR_PASS : WEIR_DROP, kSource, {});
    if (list.action == WEIR_DROP && world.below(4) == 0) list.mode = WEIR_MONITOR;
    ListDraft draft;
    for (unsigned n = world.below(12); n > 0; n--) {
      if (world.below(2) == 0) {
        draft.v4.push_back(random_entry<Ipv4>(world));
      } else {
        draft.v6.push_back(random_entry<Ipv6>(world));
      }
    }
    list.content = make_entries(std::move(draft));
    policy.lists.push_back(std::move(list));
  }
  return policy;
}

template <class Addr>
Addr packet_address(World& world, const Policy& policy) {
  const List& list = policy.lists[world.below(static_cast<unsigned>(policy.lists.size()))];
  if (world.below(2) == 0) return world.address(Addr{});
  Addr around = world.address(Addr{});
  if constexpr (std::is_same_v<Addr, Ipv4>) {
    if (!list.v4().empty()) around = world.below(2) == 0 ? list.v4()[0].first : list.v4().last_of(list.v4().size() - 1);
  } else {
    if (!list.v6().empty()) around = world.below(2) == 0 ? list.v6()[0].first : list.v6().last_of(list.v6().size() - 1);
  }
  return static_cast<Addr>(around + world.below(3) - 1);
}

template <class Addr>
reference::PacketKeys random_packet(World& world, const Policy& policy) {
  return {.family = std::is_same_v<Addr, Ipv4> ? uint8_t{4} : uint8_t{6},
          .src = packet_address<Addr>(world, policy),
          .dst = packet_address<Addr>(world, policy),
          .has_ports = world.below(4) != 0,
          .sport = world.port(),
          .dport = world.port()};
}

// Both sides of a packet, as a data plane asks.
template <class Addr>
reference::Classified classify(const filter::SnapshotView& snapshot, const filter::Kernels& kernels,
                               const reference::PacketKeys& packet) {
  const Probe<Addr> probes[2] = {{static_cast<Addr>(packet.src), packet.sport},
                                 {static_cast<Addr>(packet.dst), packet.dport}};
  Matched sides[2];
  look_up(snapshot, kernels, probes, packet.has_ports, sides);
  const weir_set matched = sides[0].source | sides[1].destination;
  const Judgement verdict = judge(snapshot.header(), matched);
  reference::Classified answer;
  for (unsigned l = 0; l < snapshot.header().n_lists; l++) {
    if (has_list(matched, l)) answer.matched.push_back(l);
  }
  answer.credited = verdict.list;
  answer.action = verdict.action;
  return answer;
}

}  // namespace

TEST_CASE("snapshots of random policies agree with the reference classifier, and that with its index") {
  const auto kernels = filter::choose_kernels();
  REQUIRE(kernels);
  uint64_t packets = 0, hits = 0;
  for (int round = 0; round < kPolicies; round++) {
    SplitMix seed{static_cast<uint64_t>(round)};
    World world{{seed.next()}, 0, 0, 0};
    world.v4_bits = 4 + world.below(14);
    world.v6_bits = 4 + world.below(8);
    world.v6_shift = world.below(90);
    Policy policy = random_policy(world);
    // A low ceiling for most: many shapes of few keys are quick to build. The others expand as they like.
    if (round % 8 != 0) policy.memory_bytes = uint64_t{8} << 20;
    // Some have another layout, in turn: those take longer to size.
    constexpr weir_layout kLayouts[] = {WEIR_LAYOUT_PAGE2, WEIR_LAYOUT_PAGE7, WEIR_LAYOUT_RIBBON};
    if (round % 16 == 1) {
      policy.layout = kLayouts[round / 16 % 3];
      policy.false_positive_rate = 0.3;  // many strangers get to the exact stage
    }
    const BuiltSnapshot snapshot = build_unproven(policy, world.random.next());
    const filter::SnapshotView view = snapshot.view();
    const reference::Classifier index(policy);
    for (int i = 0; i < kPackets; i++) {
      const bool v4 = world.below(2) == 0;
      const reference::PacketKeys packet = v4 ? random_packet<Ipv4>(world, policy) : random_packet<Ipv6>(world, policy);
      const reference::Classified expected = reference::classify_linear(policy, packet);
      const reference::Classified found =
          v4 ? classify<Ipv4>(view, **kernels, packet) : classify<Ipv6>(view, **kernels, packet);
      if (found != expected) FAIL("policy " << round << ", packet " << i << ": the snapshot disagrees");
      if (index.classify(packet) != expected) FAIL("policy " << round << ", packet " << i << ": the index disagrees");
      packets++;
      hits += !expected.matched.empty();
    }
  }
  const double hit_share = static_cast<double>(hits) / static_cast<double>(packets);
  INFO("share of packets that match: " << hit_share);
  CHECK(hit_share > 0.2);
  CHECK(hit_share < 0.8);
}

namespace {

constexpr uint64_t kNow = 1000;
constexpr uint8_t kUdp = 17;

// One that expires, sometimes.
template <class Addr>
Entry<Addr> entry_to_add(World& world) {
  Entry<Addr> entry = random_entry<Addr>(world);
  if (world.below(4) == 0) entry.expires = static_cast<uint32_t>(kNow - 2 + world.below(5));
  return entry;
}

Flow flow_to_add(World& world) {
  Flow flow;
  flow.family = 4;
  const Ipv4 host = world.address(Ipv4{});
  flow.dst = {host, host};
  if (world.below(2) == 0) flow.src = {Ipv6{10u << 24}, Ipv6{(10u << 24) + world.below(1u << world.v4_bits)}};
  if (!flow.src || world.below(2) == 0) flow.protocol = kUdp;
  const uint16_t port = world.port();
  if (world.below(2) == 0) flow.dport = PortRange{port, port};
  if (world.below(4) == 0) flow.expires = static_cast<uint32_t>(kNow - 2 + world.below(5));
  return flow;
}

// Takes some entries out of a list, and adds others.
void change(World& world, List& list) {
  ListDraft draft = draft_of(*list.content);
  const auto thin = [&](auto& entries) {
    const unsigned one_in = 2 + world.below(8);
    std::erase_if(entries, [&](const auto&) { return world.below(one_in) == 0; });
  };
  thin(draft.v4);
  thin(draft.v6);
  if (world.below(8) == 0) thin(draft.flows);
  for (unsigned n = world.below(6); n > 0; n--) draft.v4.push_back(entry_to_add<Ipv4>(world));
  for (unsigned n = world.below(4); n > 0; n--) draft.v6.push_back(entry_to_add<Ipv6>(world));
  if (world.below(6) == 0) draft.flows.push_back(flow_to_add(world));
  list.content = make_entries(std::move(draft));
}

weir_packet packet_of(const reference::PacketKeys& keys) {
  weir_packet packet = {};
  packet.family = keys.family;
  packet.protocol = keys.protocol;
  if (keys.has_ports) packet.has = WEIR_HAS_PORTS;
  packet.port[WEIR_SIDE_SOURCE] = __builtin_bswap16(keys.sport);
  packet.port[WEIR_SIDE_DESTINATION] = __builtin_bswap16(keys.dport);
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    const Ipv6 address = side == WEIR_SIDE_SOURCE ? keys.src : keys.dst;
    if (keys.family == 4) {
      set_address(packet, side, static_cast<Ipv4>(address));
    } else {
      set_address(packet, side, address);
    }
  }
  return packet;
}

// After every overlay: does the joined gate let through what has a key? A copy of the base, as an enforcer has one.
bool passes_joined(const filter::SnapshotView& base, const filter::SnapshotView& overlay, const weir_packet& packet) {
  const uint64_t address = packet.family == 4 ? weir_gate_address_v4(static_cast<uint32_t>(packet.address[0][0]))
                                              : weir_gate_address_v6(packet.address[0][0]);
  const uint64_t other = packet.family == 4 ? weir_gate_address_v4(static_cast<uint32_t>(packet.address[1][0]))
                                            : weir_gate_address_v6(packet.address[1][0]);
  return filter::passes_gate(filter::joined_gate(base, overlay, packet.family, WEIR_SIDE_SOURCE), address) ||
         filter::passes_gate(filter::joined_gate(base, overlay, packet.family, WEIR_SIDE_DESTINATION), other);
}

// XDP asks an overlay's own gates: they know its keys, and are open only where a key has no address.
void check_xdp_gates(const filter::SnapshotView& overlay) {
  for (const filter::ShapeView& shape : overlay.shapes()) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const bool stands = shape.shape.flow ? shape.gate_side == side : (shape.directions >> side & 1) != 0;
      if (!stands) continue;
      const filter::GateView& gate = overlay.xdp_gate(shape.shape.family, side);
      const bool has_address = std::all_of(overlay.shapes().begin(), overlay.shapes().end(), [&](const auto& other) {
        return other.shape.family != shape.shape.family || filter::leading_bits(other.shape, side) != 0;
      });
      CHECK((gate.kind == WEIR_GATE_TABLES) == has_address);
      filter::with_bucket_type(shape.shape, [&]<class Bucket>() {
        for (const Bucket& bucket : std::span(reinterpret_cast<const Bucket*>(shape.exact), shape.exact_buckets)) {
          for (unsigned slot = 0; slot < filter::kSlots<Bucket>; slot++) {
            if (bucket.rule[slot] == 0) continue;
            const auto word = [&](unsigned w) {
              return w < filter::key_words_of<Bucket>() ? filter::slot_word(bucket, slot, w) : 0;
            };
            const uint64_t address = filter::leading_address(shape.shape, side, word);
            const weir_rule& rule = overlay.rule(bucket.rule[slot]);
            // A key of one side alone, new to the base, need not pass the other side's gate.
            const bool is_asked = shape.shape.flow || (filter::sides_of(rule) >> side & 1) != 0;
            if (is_asked) CHECK(filter::passes_gate(gate, address));
          }
        }
      });
    }
  }
}

}  // namespace

TEST_CASE("a base and the overlay of what changed answer as the reference classifier does for the policy as it is") {
  uint64_t overlays = 0, rebuilds = 0, packets = 0, hits = 0;
  for (int round = 0; round < kPolicies / 4; round++) {
    SplitMix seed{static_cast<uint64_t>(round) + 77};
    World world{{seed.next()}, 0, 0, 0};
    world.v4_bits = 4 + world.below(14);
    world.v6_bits = 4 + world.below(8);
    world.v6_shift = world.below(90);
    Policy policy = random_policy(world);
    if (policy.lists.size() > 8) policy.lists.resize(8);
    policy.memory_bytes = uint64_t{64} << 20;
    if (world.below(3) == 0) change(world, policy.lists[0]);  // flows and entries that expire in the base, too
    const Book before = policy.lists;
    BuiltSnapshot base = build_unproven(policy, world.random.next());
    base.header().epoch = 5;
    base.header().number = 1;
    const Digest digest = weir::digest_of(base.bytes());
    BuiltSnapshot enforced(base.bytes().size());
    memcpy(enforced.bytes().data(), base.bytes().data(), base.bytes().size());
    const filter::SnapshotView base_view = enforced.view();
    for (uint64_t step = 0; step < 5; step++) {
      for (List& list : policy.lists) {
        if (world.below(2) == 0) change(world, list);
      }
      INFO("policy " << round << ", step " << step);
      const Result<Overlaid> made = compile_overlay(policy, {base_view, digest, before}, {5, 2 + step});
      if (!made) FAIL(made.error());
      if (!made->needs_rebuild.empty()) {
        rebuilds++;
        break;
      }
      overlays++;
      const Result<Mapping> bytes = map_read_only(made->compiled.snapshot.get(), made->compiled.size_bytes);
      REQUIRE(bytes);
      const Result<filter::SnapshotView> overlay = filter::SnapshotView::open(bytes->bytes());
      REQUIRE(overlay);
      check_xdp_gates(*overlay);
      filter::join_gates(*overlay, enforced.bytes());
      for (int i = 0; i < kPackets / 4; i++) {
        reference::PacketKeys keys =
            world.below(3) != 0 ? random_packet<Ipv4>(world, policy) : random_packet<Ipv6>(world, policy);
        keys.protocol = kUdp;
        const uint64_t now = kNow - 2 + world.below(5);
        const reference::Classified expected = reference::classify_linear(policy, keys, now);
        const weir_packet packet = packet_of(keys);
        const weir_set matched = match({base_view, &*overlay}, packet, now);
        std::vector<unsigned> found;
        for (unsigned l = 0; l < policy.lists.size(); l++) {
          if (has_list(matched, l)) found.push_back(l);
        }
        if (found != expected.matched) FAIL("packet " << i << ": base and overlay disagree");
        if (!found.empty() && !passes_joined(base_view, *overlay, packet))
          FAIL("packet " << i << ": kept out by a gate");
        packets++;
        hits += !found.empty();
      }
    }
  }
  INFO(overlays << " overlays, " << rebuilds << " rebuilds, " << hits << " of " << packets << " packets match");
  CHECK(overlays > rebuilds);
  CHECK(hits * 5 > packets);
}

}  // namespace weir::control
