#include "control/lookup.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "filter/layouts/hash.h"

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
    if (shape.shape.family != kFamily || (shape.shape.with_port && !with_ports)) continue;
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

}  // namespace

void look_up(const filter::SnapshotView& snapshot, const filter::Kernels& kernels, std::span<const Probe<Ipv4>> probes,
             bool with_ports, Matched* matched) {
  look_up_family(snapshot, kernels, probes, with_ports, matched);
}

void look_up(const filter::SnapshotView& snapshot, const filter::Kernels& kernels, std::span<const Probe<Ipv6>> probes,
             bool with_ports, Matched* matched) {
  look_up_family(snapshot, kernels, probes, with_ports, matched);
}

}  // namespace weir::control
