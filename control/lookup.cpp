#include "control/lookup.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <type_traits>

#include "filter/layouts/hash.h"
#include "filter/residual.h"

namespace weir::control {
namespace {

template <class Addr>
void look_up_family(const filter::SnapshotView& snapshot, const filter::Kernels& kernels,
                    std::span<const Probe<Addr>> probes, bool with_ports, Matched* matched) {
  constexpr uint8_t kFamily = std::is_same_v<Addr, Ipv4> ? 4 : 6;
  const auto n = static_cast<unsigned>(probes.size());
  std::fill_n(matched, n, Matched{});
  filter::Key keys[filter::kMaxBatch];
  uint64_t words[WEIR_MAX_KEY_WORDS][filter::kMaxBatch];
  const uint64_t* const columns[WEIR_MAX_KEY_WORDS] = {words[0], words[1], words[2], words[3], words[4]};
  uint64_t hash[filter::kMaxBatch];
  for (const filter::ShapeView& shape : snapshot.shapes()) {
    const filter::KeyShape fields = shape.shape;
    if (fields.family != kFamily || fields.flow || (fields.with_port && !with_ports)) continue;
    for (unsigned i = 0; i < n; i++) {
      keys[i] = filter::make_key(shape.shape, probes[i].address, probes[i].port);
      for (unsigned w = 0; w < WEIR_MAX_KEY_WORDS; w++) words[w][i] = keys[i].word[w];
    }
    const uint64_t hits = filter::filter_check(kernels, shape, columns, n, hash);
    if (shape.layout != WEIR_LAYOUT_BITMAP) {
      for (uint64_t left = hits; left != 0; left &= left - 1) {
        const uint64_t bucket = weir_hash_range(hash[std::countr_zero(left)], shape.exact_buckets);
        __builtin_prefetch(shape.exact + bucket * WEIR_LINE_BYTES);
      }
    }
    for (uint64_t left = hits; left != 0; left &= left - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(left));
      const uint32_t id = filter::exact_find(shape, keys[i], hash[i]);
      if (id == 0) continue;
      const weir_rule& rule = snapshot.rule(id);
      if ((shape.directions & WEIR_AS_SOURCE) != 0) {
        matched[i].source = matched[i].source | snapshot.set(rule.source_set);
      }
      if ((shape.directions & WEIR_AS_DESTINATION) != 0) {
        matched[i].destination = matched[i].destination | snapshot.set(rule.destination_set);
      }
    }
  }
}

// Of a packet's address, host order.
template <class Addr>
Addr address_of(const weir_packet& packet, weir_side side) {
  if constexpr (std::is_same_v<Addr, Ipv4>) {
    return __builtin_bswap32(static_cast<uint32_t>(packet.address[side][0]));
  } else {
    return Ipv6{__builtin_bswap64(packet.address[side][0])} << 64 | __builtin_bswap64(packet.address[side][1]);
  }
}

// The packet's key; empty when it has not all fields of the shape.
template <class Addr>
std::optional<filter::Key> key_of(filter::KeyShape shape, const weir_packet& packet, weir_side side) {
  const bool has_ports = (packet.has & WEIR_HAS_PORTS) != 0;
  const bool wants_ports = shape.with_port || (shape.flow_fields & (WEIR_FLOW_SPORT | WEIR_FLOW_DPORT)) != 0;
  if (wants_ports && !has_ports) return std::nullopt;
  const auto port = [&](weir_side of) { return __builtin_bswap16(packet.port[of]); };
  if (!shape.flow) return filter::make_key(shape, address_of<Addr>(packet, side), port(side));
  return filter::make_flow_key(shape, address_of<Addr>(packet, WEIR_SIDE_SOURCE),
                               address_of<Addr>(packet, WEIR_SIDE_DESTINATION),
                               {port(WEIR_SIDE_SOURCE), port(WEIR_SIDE_DESTINATION), packet.protocol});
}

}  // namespace

weir_set match(const filter::SnapshotView& snapshot, const weir_packet& packet, uint64_t now, uint8_t sides) {
  weir_set matched = {};
  for (const filter::ShapeView& shape : snapshot.shapes()) {
    if (shape.shape.family != packet.family) continue;
    const uint8_t asked = shape.shape.flow ? uint8_t{WEIR_AS_SOURCE} : sides & shape.directions;
    for (const weir_side side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if ((asked & (side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION)) == 0) continue;
      const auto key =
          packet.family == 4 ? key_of<Ipv4>(shape.shape, packet, side) : key_of<Ipv6>(shape.shape, packet, side);
      if (!key) continue;
      const weir_rule& rule = snapshot.rule(filter::find_rule(shape, *key));  // rule 0 has no lists
      matched = matched | snapshot.set(side == WEIR_SIDE_SOURCE ? rule.source_set : rule.destination_set);
      const uint32_t chain = side == WEIR_SIDE_SOURCE ? rule.source_chain : rule.destination_chain;
      if (chain == 0) continue;
      for (const weir_residual* residual = snapshot.chain(chain);; residual++) {
        if (weir_residual_holds(residual, &packet, now)) matched = matched | snapshot.set(residual->set);
        if (residual->last != 0) break;
      }
    }
  }
  return matched;
}

void look_up(const filter::SnapshotView& snapshot, const filter::Kernels& kernels, std::span<const Probe<Ipv4>> probes,
             bool with_ports, Matched* matched) {
  look_up_family(snapshot, kernels, probes, with_ports, matched);
}

void look_up(const filter::SnapshotView& snapshot, const filter::Kernels& kernels, std::span<const Probe<Ipv6>> probes,
             bool with_ports, Matched* matched) {
  look_up_family(snapshot, kernels, probes, with_ports, matched);
}

}  // namespace weir::control
