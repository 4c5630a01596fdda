#include "control/compile/prove/lookup.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "common/bits.h"
#include "common/prefetch.h"
#include "control/compile/prove/visit_packet.h"
#include "control/policy/model/packet.h"
#include "filter/format/hash.h"
#include "filter/probe/exact.h"
#include "filter/read/overlay.h"

namespace weir::control {
namespace {

bool is_settled(const Matched& matched, const Until& until, unsigned i) {
  const uint8_t sides = until.sides[i];
  return ((sides & WEIR_AS_SOURCE) == 0 || has_list(matched.source, until.list)) &&
         ((sides & WEIR_AS_DESTINATION) == 0 || has_list(matched.destination, until.list));
}

template <class Addr>
uint64_t gate_address(Addr address) {
  if constexpr (sizeof(Addr) == sizeof(Ipv4)) return uint64_t{address} << 32;
  return static_cast<uint64_t>(address >> (kAddrBits<Addr> / 2));
}

// The sides, a mask of weir_direction, at whose gates the address gets through.
template <class Addr>
uint8_t sides_through(const Enforcing& enforcing, Addr address, Gates gates) {
  if (gates == Gates::left_out || enforcing.overlay != nullptr) return WEIR_AS_SOURCE | WEIR_AS_DESTINATION;
  uint8_t sides = 0;
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    constexpr unsigned kFamily = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
    const auto passes = [&](const filter::GateView& gate) { return filter::passes_gate(gate, gate_address(address)); };
    if (!passes(enforcing.base.gate(kFamily, side))) continue;
    if (gates == Gates::of_data_plane || passes(enforcing.base.xdp_gate(kFamily, side))) sides |= direction_of(side);
  }
  return sides;
}

// The same for many addresses: it prefetches the words of all gates before it reads the first.
template <class Addr>
void sides_through(const Enforcing& enforcing, std::span<const Probe<Addr>> probes, Gates gates, uint8_t* through) {
  constexpr unsigned kFamily = sizeof(Addr) == sizeof(Ipv4) ? 4 : 6;
  if (gates != Gates::left_out && enforcing.overlay == nullptr) {
    for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      for (const filter::GateView* gate :
           {&enforcing.base.gate(kFamily, side), &enforcing.base.xdp_gate(kFamily, side)}) {
        for (const Probe<Addr>& probe : probes) filter::prefetch_gate(*gate, gate_address(probe.address));
      }
    }
  }
  for (size_t i = 0; i < probes.size(); i++) through[i] = sides_through(enforcing, probes[i].address, gates);
}

// Keys of one shape as structure of arrays.
struct KeyBlock {
  uint64_t words[WEIR_MAX_KEY_WORDS][filter::kMaxBatch];
  unsigned n = 0;
};

// Of the keys in `wanted`, those that the table has; their rules.
uint64_t find_in(const filter::Kernels& kernels, const filter::ShapeView& shape, const KeyBlock& keys, uint64_t wanted,
                 uint32_t* rules) {
  const uint64_t* const columns[WEIR_MAX_KEY_WORDS] = {keys.words[0], keys.words[1], keys.words[2], keys.words[3],
                                                       keys.words[4]};
  uint64_t hash[filter::kMaxBatch];
  const uint64_t hits = wanted & filter::filter_check(kernels, shape, columns, keys.n, hash);
  if (shape.layout != WEIR_LAYOUT_BITMAP) {
    for (uint64_t left = hits; left != 0; left &= left - 1) {
      const uint64_t line = weir_hash_range(hash[std::countr_zero(left)], shape.exact_lines.lines);
      filter::prefetch_line(shape.exact + line * WEIR_LINE_BYTES);
    }
  }
  return filter::exact_find_batch(kernels, shape, columns, hash, hits, rules);
}

template <class Addr>
void look_up_family(const Enforcing& enforcing, const filter::Kernels& kernels, std::span<const Probe<Addr>> probes,
                    bool with_ports, Matched* matched, const Until* until, Gates gates) {
  constexpr uint8_t kFamily = std::is_same_v<Addr, Ipv4> ? 4 : 6;
  std::fill_n(matched, probes.size(), Matched{});
  unsigned open[filter::kMaxBatch];  // the probes that are asked about still
  auto n_open = static_cast<unsigned>(probes.size());
  std::iota(open, open + n_open, 0u);

  KeyBlock keys;
  uint32_t rules[filter::kMaxBatch];
  uint8_t through[filter::kMaxBatch];  // the sides of each probe whose gate lets it
  sides_through(enforcing, probes, gates, through);
  for (const ShapePair& pair : shapes_of(enforcing, kFamily)) {
    if (n_open == 0) return;
    const filter::KeyShape fields = pair.shape();
    if (fields.flow || (fields.with_port && !with_ports)) continue;
    const unsigned n_words = filter::key_words(fields);
    keys.n = n_open;
    for (unsigned k = 0; k < n_open; k++) {
      const Probe<Addr>& probe = probes[open[k]];
      const filter::Key key = filter::make_key(fields, probe.address, probe.port);
      for (unsigned w = 0; w < n_words; w++) keys.words[w][k] = key.word[w];
    }
    const auto take = [&](const filter::SnapshotView& snapshot, const filter::ShapeView& shape, uint64_t found) {
      for (uint64_t left = found; left != 0; left &= left - 1) {
        const auto k = static_cast<unsigned>(std::countr_zero(left));
        const weir_rule& rule = snapshot.rule(rules[k]);
        Matched& of_probe = matched[open[k]];
        const uint8_t sides = shape.directions & through[open[k]];
        if ((sides & WEIR_AS_SOURCE) != 0) of_probe.source = of_probe.source | snapshot.set(rule.source_set);
        if ((sides & WEIR_AS_DESTINATION) != 0) {
          of_probe.destination = of_probe.destination | snapshot.set(rule.destination_set);
        }
      }
    };
    uint64_t all = weir::low_bits(n_open), found = 0;
    if (pair.of_overlay != nullptr) {
      found = find_in(kernels, *pair.of_overlay, keys, all, rules);
      take(*enforcing.overlay, *pair.of_overlay, found);
    }
    if (pair.of_base != nullptr) {
      const uint64_t in_base = find_in(kernels, *pair.of_base, keys, all & ~found, rules);
      take(enforcing.base, *pair.of_base, in_base);
      found |= in_base;
    }
    if (until == nullptr || found == 0) continue;
    const auto end = std::remove_if(open, open + n_open, [&](unsigned i) { return is_settled(matched[i], *until, i); });
    n_open = static_cast<unsigned>(end - open);
  }
}

// As sides_through, of each side's own address.
template <class Addr>
uint8_t packet_through(const Enforcing& enforcing, const weir_packet& packet, Gates gates) {
  uint8_t sides = 0;
  for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
    const uint8_t through = sides_through(enforcing, address_of<Addr>(packet, side), gates);
    sides = static_cast<uint8_t>(sides | (through & direction_of(side)));
  }
  return sides;
}

template <class Addr>
filter::Key key_of_family(filter::KeyShape shape, const weir_packet& packet, weir_side side) {
  const auto port = [&](weir_side of) { return __builtin_bswap16(packet.port[of]); };
  if (!shape.flow) return filter::make_key(shape, address_of<Addr>(packet, side), port(side));
  return filter::make_flow_key(shape, address_of<Addr>(packet, WEIR_SIDE_SOURCE),
                               address_of<Addr>(packet, WEIR_SIDE_DESTINATION),
                               {port(WEIR_SIDE_SOURCE), port(WEIR_SIDE_DESTINATION), packet.protocol});
}

}  // namespace

std::vector<ShapePair> shapes_of(const Enforcing& enforcing, uint8_t family) {
  std::vector<ShapePair> pairs;
  const auto shapes = enforcing.base.shapes();
  for (auto shape = shapes.rbegin(); shape != shapes.rend(); ++shape) {
    if (shape->shape.family != family) continue;
    pairs.push_back({&*shape, enforcing.overlay == nullptr ? nullptr : find_shape(*enforcing.overlay, shape->shape)});
  }
  if (enforcing.overlay == nullptr) return pairs;
  for (const filter::ShapeView& shape : enforcing.overlay->shapes()) {
    if (shape.shape.family == family && find_shape(enforcing.base, shape.shape) == nullptr) {
      pairs.push_back({nullptr, &shape});
    }
  }
  return pairs;
}

uint8_t sides_through(const Enforcing& enforcing, const weir_packet& packet, Gates gates) {
  return packet.family == 4 ? packet_through<Ipv4>(enforcing, packet, gates)
                            : packet_through<Ipv6>(enforcing, packet, gates);
}

std::optional<filter::Key> key_of(filter::KeyShape shape, const weir_packet& packet, weir_side side) {
  const auto asks = [&](weir_flow_field field) { return (shape.flow_fields & field) != 0; };
  if (asks(WEIR_FLOW_PROTOCOL) && lacks(packet) == kLacksProtocol) return std::nullopt;
  if (asks(WEIR_FLOW_SPORT) && !has_port(packet, WEIR_SIDE_SOURCE)) return std::nullopt;
  if (asks(WEIR_FLOW_DPORT) && !has_port(packet, WEIR_SIDE_DESTINATION)) return std::nullopt;
  if (shape.with_port && !has_port(packet, side)) return std::nullopt;
  return packet.family == 4 ? key_of_family<Ipv4>(shape, packet, side) : key_of_family<Ipv6>(shape, packet, side);
}

weir_set match(const Enforcing& enforcing, const weir_packet& packet, uint64_t now, uint8_t sides, Gates gates) {
  weir_set matched = {};
  visit_keys(enforcing, packet, sides, sides_through(enforcing, packet, gates),
             [&](const filter::SnapshotView& snapshot, const filter::ShapeView&, weir_side side, const filter::Key&,
                 uint32_t id) {
               const weir_rule& rule = snapshot.rule(id);  // rule 0 has no lists
               const bool is_source = side == WEIR_SIDE_SOURCE;
               matched = matched | snapshot.set(is_source ? rule.source_set : rule.destination_set);
               snapshot.visit_chain(is_source ? rule.source_chain : rule.destination_chain,
                                    [&](const weir_residual& residual) {
                                      if (!residual_holds(residual, packet, now)) return;
                                      matched = matched | snapshot.set(residual.set);
                                    });
             });
  return matched;
}

void look_up(const Enforcing& enforcing, const filter::Kernels& kernels, std::span<const Probe<Ipv4>> probes,
             bool with_ports, Matched* matched, const Until* until, Gates gates) {
  look_up_family(enforcing, kernels, probes, with_ports, matched, until, gates);
}

void look_up(const Enforcing& enforcing, const filter::Kernels& kernels, std::span<const Probe<Ipv6>> probes,
             bool with_ports, Matched* matched, const Until* until, Gates gates) {
  look_up_family(enforcing, kernels, probes, with_ports, matched, until, gates);
}

}  // namespace weir::control
