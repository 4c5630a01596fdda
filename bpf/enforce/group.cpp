#include "bpf/enforce/group.h"

#include <algorithm>

#include "bpf/program/prefilter.h"
#include "filter/format/buckets.h"
#include "filter/format/rules.h"
#include "filter/format/siphash.h"

namespace weir::xdp {

namespace {

uint32_t page_of(const weir_section& section) {
  return static_cast<uint32_t>(section.offset / WEIR_PAGE_BYTES);
}

// 0: none, because the filter itself is a bitmap.
uint32_t prefilter_bits(const weir_shape& shape) {
  if (shape.layout == WEIR_LAYOUT_BITMAP) return 0;
  constexpr uint64_t kMostPages = ((uint64_t{1} << 32) - 1) / WEIR_PAGE_BITS;
  const uint64_t pages = (shape.n_keys * WEIR_PREFILTER_BITS_PER_KEY + WEIR_PAGE_BITS - 1) / WEIR_PAGE_BITS;
  return static_cast<uint32_t>(std::clamp<uint64_t>(pages, 1, kMostPages) * WEIR_PAGE_BITS);
}

template <class Bucket>
void set_bits(const filter::ShapeView& shape, const weir_group& group, uint32_t n_bits, std::span<uint64_t> words) {
  constexpr unsigned kWords = filter::key_words_of<Bucket>();
  const std::span buckets(reinterpret_cast<const Bucket*>(shape.exact), shape.exact_buckets);
  for (const Bucket& bucket : buckets) {
    for (unsigned slot = 0; slot < filter::kSlots<Bucket>; slot++) {
      if (bucket.rule[slot] == 0) continue;
      uint64_t key[kWords];
      for (unsigned w = 0; w < kWords; w++) key[w] = filter::slot_word(bucket, slot, w);
      const uint32_t hash = weir_prefilter_hash(group.multiplier, key, kWords);
      const uint32_t bit = weir_prefilter_bit(hash, n_bits);
      words[bit / 64] |= weir_prefilter_mask(hash, bit);
    }
  }
}

weir_asked_gate gate_of(const weir_gate& from) {
  weir_asked_gate gate = {};
  gate.n_tables = from.kind == WEIR_GATE_TABLES ? from.n_tables : 0;
  gate.is_open = from.kind == WEIR_GATE_OPEN ? 1 : 0;
  gate.multiplier = from.multiplier;
  for (uint32_t t = 0; t < gate.n_tables; t++) {
    gate.table[t].page = page_of(from.table[t].bits);
    gate.table[t].prefix_bits = from.table[t].prefix_bits;
    gate.table[t].index_bits = from.table[t].index_bits;
  }
  return gate;
}

weir_lookup lookup_of(const weir_shape& from, uint8_t side, uint32_t prefilter_page) {
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
  lookup.prefilter_page = prefilter_page;
  lookup.prefilter_bits = prefilter_bits(from);
  const filter::Key mask = filter::key_mask(shape);
  std::copy(mask.word.begin(), mask.word.end(), lookup.mask);
  return lookup;
}

// 0: none, or some behind the first 64.
uint64_t short_set(const weir_set& set) {
  return (set.lists[1] | set.lists[2] | set.lists[3]) == 0 ? set.lists[0] : 0;
}

}  // namespace

weir_group make_group(const filter::SnapshotView& view, const uint64_t digest[2]) {
  const weir_snapshot_header& header = view.header();
  weir_group group = {};
  std::transform(std::begin(header.gates), std::end(header.gates), group.gate, gate_of);
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
  for (uint64_t w = 0; w < WEIR_MAX_KEY_WORDS; w++) {
    const uint64_t words[] = {w, ~uint64_t{0}};  // no address is such a key
    group.multiplier[w] = weir_siphash13(header.secret, words, 2) | 1;
  }
  auto prefilter_page = static_cast<uint32_t>(header.total_bytes / WEIR_PAGE_BYTES);
  std::copy_n(digest, 2, group.digest);
  for (const weir_shape& shape : std::span(header.shapes).first(header.n_shapes)) {
    for (const uint8_t side : {WEIR_SIDE_SOURCE, WEIR_SIDE_DESTINATION}) {
      const int direction = side == WEIR_SIDE_SOURCE ? WEIR_AS_SOURCE : WEIR_AS_DESTINATION;
      if ((shape.directions & direction) == 0) continue;
      weir_lookup* lookups = shape.family == 4 ? group.v4 : group.v6;
      uint32_t& n = shape.family == 4 ? group.n_v4 : group.n_v6;
      lookups[n++] = lookup_of(shape, side, prefilter_page);
    }
    prefilter_page += prefilter_bits(shape) / WEIR_PAGE_BITS;
  }
  group.arena_bytes = uint64_t{prefilter_page} * WEIR_PAGE_BYTES;
  return group;
}

void fill_prefilters(const filter::SnapshotView& view, const weir_group& group, std::span<std::byte> arena) {
  uint64_t at = group.snapshot_bytes;
  for (size_t i = 0; i < view.shapes().size(); i++) {
    const filter::ShapeView& shape = view.shapes()[i];
    const uint32_t n_bits = prefilter_bits(view.header().shapes[i]);
    if (n_bits == 0) continue;
    const std::span words(reinterpret_cast<uint64_t*>(arena.subspan(at, n_bits / 8).data()), n_bits / 64);
    filter::with_bucket_type(shape.shape, [&]<class Bucket>() { set_bits<Bucket>(shape, group, n_bits, words); });
    at += n_bits / 8;
  }
}

}  // namespace weir::xdp
