#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/result.h"
#include "filter/format/key_shape.h"
#include "filter/format/packet.h"
#include "filter/format/snapshot.h"
#include "filter/kernels/kernels.h"

namespace weir::filter {

struct ListInfo {
  std::string name;
  weir_action action = WEIR_DROP;
  weir_mode mode = WEIR_ENFORCE;
  uint64_t n_entries = 0;
};

// One hashed shape's content: unique canonical keys (structure of arrays: words[w][i], the first key_words(shape)
// vectors are filled) and the rule of each (> 0).
struct KeyTable {
  KeyShape shape;
  weir_layout layout = WEIR_LAYOUT_LINE8;
  double false_positive_rate = 0.005;    // wanted of its filter
  uint8_t gate_side = WEIR_SIDE_SOURCE;  // flow: at which side's gate it stands; others: 0
  uint8_t asked = 0;  // mask of weir_direction: sides at which it is asked, though no rule of it has lists there
  std::array<std::vector<uint64_t>, WEIR_MAX_KEY_WORDS> words;
  std::vector<uint32_t> rules;
};

// Keys as structure of arrays: word w of key i is words[w][i].
struct KeyColumns {
  const uint64_t* words[WEIR_MAX_KEY_WORDS] = {};
  unsigned n_words = 0;
  size_t n = 0;
};

inline KeyColumns columns_of(const KeyTable& table) {
  KeyColumns columns = {.n_words = key_words(table.shape), .n = table.rules.size()};
  for (unsigned w = 0; w < columns.n_words; w++) columns.words[w] = table.words[w].data();
  return columns;
}

// IPv4 /24 and shorter: runs of /24 networks (address >> 8) with one rule, ascending, disjoint, first <= last.
struct NetworkRun {
  uint32_t first;
  uint32_t last;
  uint32_t rule;
};

// What one gate is to be (weir_gate says what there is). Where no lookup stands the gate is closed, whatever is asked.
struct GateChoice {
  struct Table {
    uint8_t prefix_bits;
    uint32_t n_words;  // 0: direct
    bool operator==(const Table&) const = default;
  };
  std::vector<Table> tables;  // empty: open; prefix_bits ascending
};

// Keys that are shorter than the prefix of their table fill no more of a gate's tables than this: about 0.1 s.
constexpr uint64_t kMaxGateFills = uint64_t{1} << 24;

// Residual 0.
constexpr weir_residual no_residual() {
  weir_residual none = {};
  none.last = 1;
  return none;
}

struct SnapshotInput {
  uint64_t epoch = 0;
  uint64_t number = 0;
  uint64_t built_unix_s = 0;
  std::array<uint64_t, 2> secret = {};
  weir_action default_action = WEIR_PASS;
  weir_action unparsed_action = WEIR_PASS;
  uint8_t tunnels = 0;                                     // mask of weir_tunnel
  std::vector<ListInfo> lists;                             // at most 256
  std::vector<weir_set> sets;                              // [0] empty
  std::vector<weir_rule> rules;                            // [0] all zero
  std::vector<weir_residual> residuals = {no_residual()};  // [0] as snapshot.h says
  std::vector<KeyTable> tables;      // at most 16 shapes a family, networks included; each shape once
  std::vector<NetworkRun> networks;  // not empty: one more shape, v4 /24 as bitmap
  std::array<GateChoice, WEIR_GATES> gates, xdp_gates;
};

// Where everything goes and how large the snapshot gets.
struct SnapshotPlan {
  weir_snapshot_header header;  // complete, but for what build_snapshot counts and draws: a gate's n_set and multiplier
};
Result<SnapshotPlan> plan_snapshot(const SnapshotInput& input);

// When keys are put down by parts of the table before they are written (filter/build/partition.h), and how. Measured:
// docs/develop/filter.md.
struct PartitionLimits {
  uint64_t min_out_bytes = uint64_t{8} << 20;    // smaller tables are written as the keys come
  uint64_t partition_bytes = uint64_t{1} << 19;  // of the table, written at a time
  double scratch_share = 0.25;                   // memory for it, as a share of what keys and table take
  std::atomic<uint64_t>* written = nullptr;      // counts keys as they come to where they stay; null: nobody asks
};

// Writes header.total_bytes bytes. out is zeroed memory of that size (a new memfd), 64-byte aligned. Fails when a page
// of an exact stage overflows: the caller tries again with another secret (probability below 1e-9 by sizing). Large
// shapes and gates are built by up to `threads` threads. The bytes are the same for any number of them, and any limits.
Result<void> build_snapshot(const SnapshotInput& input, const SnapshotPlan& plan, std::span<std::byte> out,
                            unsigned threads = 1, const PartitionLimits& limits = {});

// Marks keys in a zeroed filter of its own, without an exact stage. layout: one that has marks (not ribbon, not
// bitmap).
void build_filter(const Kernels& kernels, const uint64_t secret[2], const KeyColumns& keys, weir_layout layout,
                  const FilterWords& filter, unsigned threads = 1, const PartitionLimits& limits = {});

}  // namespace weir::filter
