#include "bpf/enforce/group.h"

#include <algorithm>
#include <span>

#include "filter/format/packet.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"
#include "filter/read/overlay.h"

namespace weir::xdp {

namespace {

uint32_t page_of(const weir_section& section) {
  return static_cast<uint32_t>(section.offset / WEIR_PAGE_BYTES);
}

// probe: where it counts.
weir_lookup lookup_of(const weir_shape& from, uint8_t side, uint32_t shape_number, uint32_t probe) {
  const filter::KeyShape shape = filter::shape_of(from);
  weir_lookup lookup = {};
  lookup.layout = from.layout;
  lookup.n_words = static_cast<uint8_t>(filter::key_words(shape));
  lookup.side = side;
  lookup.flow = from.flow;
  lookup.needs_ports = filter::asks_ports(shape) ? 1 : 0;
  lookup.with_port = from.with_port;
  lookup.k = from.k;
  lookup.behind = static_cast<uint8_t>(1 << (from.flow != 0 ? from.gate_side : side));
  lookup.filter_lines = from.filter_lines;
  lookup.exact_buckets = from.exact_buckets;
  lookup.filter_page = page_of(from.filter);
  lookup.exact_page = page_of(from.exact);
  lookup.chunks_page = page_of(from.chunks);
  lookup.probe = probe;
  lookup.shape = shape_number;
  const filter::Key mask = filter::key_mask(shape);
  std::copy(mask.word.begin(), mask.word.end(), lookup.mask);
  return lookup;
}

weir_asked_gate asked_gate(const weir_gate& from) {
  weir_asked_gate gate = {};
  gate.n_tables = from.n_tables;
  gate.is_open = from.kind == WEIR_GATE_OPEN ? 1 : 0;
  gate.multiplier = from.multiplier;
  for (uint32_t t = 0; t < from.n_tables; t++) {
    const weir_gate_table& table = from.table[t];
    gate.table[t] = {page_of(table.bits), table.n_words, table.prefix_bits, {}};
  }
  return gate;
}

std::span<const weir_shape> shapes_of(const weir_snapshot_header& header) {
  return std::span(header.shapes).first(header.n_shapes);
}

// In the order in which they are asked: visit(shape, side, index among those of the family).
template <class Visit>
void visit_lookups(const weir_snapshot_header& header, Visit visit) {
  uint32_t n_v4 = 0, n_v6 = 0;
  for (const weir_shape& shape : shapes_of(header)) {
    for (const uint8_t side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      if ((shape.directions >> side & 1) == 0) continue;
      visit(shape, side, shape.family == 4 ? n_v4++ : n_v6++);
    }
  }
}

// 0: none, or some behind the first 64.
uint64_t short_set(const weir_set& set) {
  return (set.lists[1] | set.lists[2] | set.lists[3]) == 0 ? set.lists[0] : 0;
}

}  // namespace

weir_group make_group(const filter::SnapshotView& view, const uint64_t digest[2]) {
  const weir_snapshot_header& header = view.header();
  weir_group group = {};
  group.epoch = header.epoch;
  group.number = header.number;
  std::copy_n(header.secret, 2, group.secret);
  std::copy_n(header.pass_lists, WEIR_LIST_WORDS, group.pass_lists);
  std::copy_n(header.drop_lists, WEIR_LIST_WORDS, group.drop_lists);
  std::copy_n(header.monitor_lists, WEIR_LIST_WORDS, group.monitor_lists);
  group.sets_page = page_of(header.sets);
  group.rules_page = page_of(header.rules);
  group.residuals_page = page_of(header.residuals);
  group.n_lists = header.n_lists;
  group.default_action = header.default_action;
  group.unparsed_action = header.unparsed_action;
  group.tunnels = header.tunnels;
  for (uint32_t id = 1; id < std::min(header.n_rules, WEIR_SHORT_RULES); id++) {
    const weir_rule& rule = view.rule(id);
    if (rule.source_chain == 0) group.lists_of_rule[WEIR_SIDE_SOURCE][id] = short_set(view.set(rule.source_set));
    if (rule.destination_chain == 0) {
      group.lists_of_rule[WEIR_SIDE_DESTINATION][id] = short_set(view.set(rule.destination_set));
    }
  }
  group.snapshot_bytes = header.total_bytes;
  std::copy_n(digest, 2, group.digest);
  for (const weir_shape& shape : shapes_of(header)) group.n_keys += shape.n_keys;
  visit_lookups(header, [&](const weir_shape& shape, uint8_t side, uint32_t index) {
    const auto number = static_cast<uint32_t>(&shape - header.shapes);
    const uint32_t first = (filter::is_overlay(header) ? 2 : 0) + (shape.family == 4 ? 0 : 1);
    (shape.family == 4 ? group.v4 : group.v6)[index] = lookup_of(shape, side, number, first * WEIR_MAX_LOOKUPS + index);
    (shape.family == 4 ? group.n_v4 : group.n_v6) = index + 1;
  });
  for (uint32_t g = 0; g < WEIR_GATES; g++) group.gate[g] = asked_gate(header.xdp_gates[g]);
  return group;
}

void stand_on(weir_group& overlay, const weir_snapshot_header& overlay_header, const weir_snapshot_header& base) {
  visit_lookups(overlay_header, [&](const weir_shape& shape, uint8_t side, uint32_t index) {
    weir_lookup& lookup = (shape.family == 4 ? overlay.v4 : overlay.v6)[index];
    visit_lookups(base, [&](const weir_shape& of_base, uint8_t base_side, uint32_t base_index) {
      if (base_side != side || filter::shape_of(of_base) != filter::shape_of(shape)) return;
      lookup.replaces = uint32_t{1} << base_index;
    });
  });
}

ActiveGroups active_groups(const weir_state& state) {
  const uint32_t active = __atomic_load_n(&state.active, __ATOMIC_ACQUIRE);
  const uint32_t base = weir_active_base(active), overlay = weir_active_overlay(active);
  ActiveGroups groups;
  if (base < WEIR_BASES) groups.base = &state.group[base];
  if (overlay >= WEIR_BASES && overlay < WEIR_GROUPS) groups.overlay = &state.group[overlay];
  return groups;
}

std::optional<filter::Enforced> enforced_by(const ActiveGroups& active) {
  if (active.base == nullptr) return std::nullopt;
  const weir_group& top = active.overlay != nullptr ? *active.overlay : *active.base;
  return filter::Enforced{{top.epoch, top.number},
                          {top.digest[0], top.digest[1]},
                          {active.base->epoch, active.base->number},
                          {active.base->digest[0], active.base->digest[1]}};
}

void tell_enforced(const ActiveGroups& active, wire::StatusBody& status) {
  const std::optional<filter::Enforced> enforced = enforced_by(active);
  if (!enforced) return;
  status.generation = enforced->generation;
  status.base = enforced->base;
  std::copy(enforced->digest.begin(), enforced->digest.end(), status.digest);
  std::copy(enforced->base_digest.begin(), enforced->base_digest.end(), status.base_digest);
  status.snapshot_bytes = active.base->snapshot_bytes;
  if (active.overlay == nullptr) return;
  status.overlay_bytes = active.overlay->snapshot_bytes;
  status.overlay_keys = active.overlay->n_keys;
}

}  // namespace weir::xdp
