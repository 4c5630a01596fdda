#include "filter/read/overlay.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "filter/format/buckets.h"
#include "filter/format/gate.h"
#include "filter/format/packet.h"
#include "filter/format/rules.h"

namespace weir::filter {
namespace {

Error foreign(const std::string& what) {
  return Error{"the overlay does not stand on this snapshot: " + what};
}

Result<void> check_header(const weir_snapshot_header& base, const Digest& base_digest,
                          const weir_snapshot_header& overlay) {
  if (is_overlay(base)) return foreign("that one is an overlay itself");
  if (overlay.epoch != base.epoch || overlay.base_number != base.number) {
    return foreign("it is made for number " + std::to_string(overlay.base_number) + ", and this is " +
                   std::to_string(base.number));
  }
  if (!std::equal(base_digest.begin(), base_digest.end(), overlay.base_digest)) {
    return foreign("it is made for other bytes of the same generation");
  }
  if (memcmp(overlay.secret, base.secret, sizeof base.secret) != 0) return foreign("the secrets differ");
  if (overlay.default_action != base.default_action || overlay.unparsed_action != base.unparsed_action ||
      overlay.tunnels != base.tunnels) {
    return foreign("default, unparsed or tunnels differ");
  }
  return {};
}

Result<void> check_lists(std::span<const weir_list> base, std::span<const weir_list> overlay) {
  const auto is_same = [](const weir_list& a, const weir_list& b) {
    return memcmp(a.name, b.name, sizeof a.name) == 0 && a.action == b.action && a.mode == b.mode;
  };
  if (std::equal(base.begin(), base.end(), overlay.begin(), overlay.end(), is_same)) return {};
  return foreign("the lists differ");
}

// How many values of the table a key with so many bits covers.
uint64_t values_of_key(const weir_gate_table& table, unsigned bits) {
  const unsigned more = table.prefix_bits - std::min<unsigned>(bits, table.prefix_bits);
  return more < 63 ? uint64_t{1} << more : uint64_t{1} << 63;
}

// The table of the base's gate that keys of this shape go to; null: there is none that could keep them out.
const weir_gate_table* table_for(const weir_snapshot_header& base, KeyShape shape, unsigned side) {
  const weir_gate& gate = base.gates[weir_gate_number(shape.family, side)];
  if (gate.kind != WEIR_GATE_TABLES) return nullptr;
  const std::span tables(gate.table, gate.n_tables);
  return &tables[gate_table_of(tables, leading_bits(shape, side))];
}

const weir_shape* find_shape(const weir_snapshot_header& header, KeyShape shape) {
  for (const weir_shape& candidate : std::span(header.shapes).first(header.n_shapes)) {
    if (shape_of(candidate) == shape) return &candidate;
  }
  return nullptr;
}

bool stands_at(const ShapeView& shape, unsigned side) {
  if (shape.shape.flow) return shape.directions != 0 && shape.gate_side == side;
  return (shape.directions >> side & 1) != 0;
}

// Tables are written by one thread while others read them, on purpose.
#if defined(__clang__)
__attribute__((no_sanitize("thread")))
#elif defined(__GNUC__)
__attribute__((no_sanitize_thread))
#endif
void set_bits(uint64_t* words, weir_gate_place place) {
  volatile uint64_t* word = words + place.word;
  *word = *word | place.bits;
}

// Every key of the table: visit(address), its leading 64 bits on this side.
template <class Bucket, class Visit>
void visit_addresses(const ShapeView& shape, unsigned side, Visit visit) {
  const auto* buckets = reinterpret_cast<const Bucket*>(shape.exact);
  for (uint32_t b = 0; b < shape.exact_buckets; b++) {
    for (unsigned slot = 0; slot < kSlots<Bucket>; slot++) {
      if (buckets[b].rule[slot] == 0) continue;
      visit(leading_address(shape.shape, side, [&](unsigned w) {
        return w < key_words_of<Bucket>() ? slot_word(buckets[b], slot, w) : 0;
      }));
    }
  }
}

}  // namespace

Result<void> check_overlay(const SnapshotView& base, const Digest& base_digest, const SnapshotView& overlay) {
  return check_overlay(base.header(), base.lists(), base_digest, overlay);
}

Result<void> check_overlay(const weir_snapshot_header& base, std::span<const weir_list> lists,
                           const Digest& base_digest, const SnapshotView& overlay) {
  if (auto ok = check_header(base, base_digest, overlay.header()); !ok) return ok;
  if (auto ok = check_lists(lists, overlay.lists()); !ok) return ok;
  uint64_t joined = 0;
  for (uint32_t i = 0; i < overlay.shapes().size(); i++) {
    const ShapeView& shape = overlay.shapes()[i];
    const std::string name = "shapes[" + std::to_string(i) + "]";
    if (shape.layout == WEIR_LAYOUT_BITMAP) return foreign(name + " is a bitmap");
    const weir_shape* of_base = find_shape(base, shape.shape);
    if (of_base != nullptr &&
        ((of_base->directions & ~shape.directions) != 0 || of_base->gate_side != shape.gate_side)) {
      return foreign(name + " is not asked where the base's is");
    }
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const weir_gate_table* table = stands_at(shape, side) ? table_for(base, shape.shape, side) : nullptr;
      if (table == nullptr) continue;
      const uint64_t values = values_of_key(*table, leading_bits(shape.shape, side));
      if (values > kMostJoinedOfKey) {
        return foreign(name + ": each of its keys would set " + std::to_string(values) + " values of a gate");
      }
      joined += values * overlay.header().shapes[i].n_keys;
    }
  }
  if (joined > kMostJoined) return foreign("its keys would set " + std::to_string(joined) + " values of gates");
  return {};
}

void join_gates(const SnapshotView& overlay, std::span<std::byte> base) {
  const auto& header = *reinterpret_cast<const weir_snapshot_header*>(base.data());
  for (const ShapeView& shape : overlay.shapes()) {
    for (const unsigned side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const weir_gate& gate = header.gates[weir_gate_number(shape.shape.family, side)];
      if (gate.kind != WEIR_GATE_TABLES || !stands_at(shape, side)) continue;
      const unsigned key_bits = leading_bits(shape.shape, side);
      const std::span tables(gate.table, gate.n_tables);
      const weir_gate_table& table = tables[gate_table_of(tables, key_bits)];
      auto* words = reinterpret_cast<uint64_t*>(base.data() + table.bits.offset);
      const unsigned shift = 64u - table.prefix_bits;
      const uint64_t below = key_bits == 0 ? ~uint64_t{0} : key_bits == 64 ? 0 : ~uint64_t{0} >> key_bits;
      with_bucket_type(shape.shape, [&]<class Bucket>() {
        visit_addresses<Bucket>(shape, side, [&](uint64_t address) {
          const uint64_t last = (address | below) >> shift;
          for (uint64_t leading = address >> shift;; leading++) {
            set_bits(words, weir_gate_place_of(table.prefix_bits, table.n_words, gate.multiplier, leading << shift));
            if (leading == last) return;
          }
        });
      });
    }
  }
}

}  // namespace weir::filter
