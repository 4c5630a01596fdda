#pragma once

#include <cstdint>
#include <vector>

#include "filter/build/builder.h"
#include "filter/build/sizing.h"
#include "filter/read/view.h"
#include "tests/bench/filter_rig.h"

// Filters and snapshots of the keys of tests/bench/filter_lanes.h: 0..n-1 are in, from 2^31 on are not.
namespace weir::bench {

constexpr filter::KeyShape kKeyShape = {6, 128, false};  // 16 bytes
constexpr unsigned kKeyWords = 2;
constexpr uint64_t kSecret[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
constexpr double kBitsPerKey = 12;

struct Columns {
  std::vector<uint64_t> words[kKeyWords];
  filter::KeyColumns view() const;
};
Columns member_columns(uint64_t n_keys);

// Lines that give every key so many bits, in whole units of the layout; the k with the lowest rate.
filter::FilterSize filter_size(weir_layout layout, uint64_t n_keys, double bits_per_key);

// A filter alone. Words: as long as the memory.
struct TestFilter {
  weir_layout layout = WEIR_LAYOUT_LINE8;
  uint64_t n_keys = 0;
  filter::FilterSize size = {};
  BigMemory memory;

  filter::FilterBits bits() const { return {memory.as<uint8_t>(), size.lines, size.k}; }
  filter::FilterWords words() const { return {memory.as<uint64_t>(), size.lines, size.k}; }
  double mib() const { return static_cast<double>(size.lines) * WEIR_LINE_BYTES / (1 << 20); }
  double fpr() const;
};
// Empty.
TestFilter make_filter(weir_layout layout, uint64_t n_keys, double bits_per_key);
// With its keys, of any layout but bitmap. secret: another one gives another filter.
void mark_members(const filter::Kernels& kernels, const TestFilter& filter, const uint64_t secret[2],
                  const filter::KeyColumns& keys, unsigned threads);

// Filter and exact stage.
struct TestSnapshot {
  filter::SnapshotInput input;  // its table's columns go away with drop_input()
  filter::SnapshotPlan plan = {};
  BigMemory memory;
  filter::SnapshotView view;

  const filter::ShapeView& table() const { return view.shapes()[0]; }
  std::span<std::byte> bytes() const { return {memory.bytes().data(), plan.header.total_bytes}; }
  double mib() const { return static_cast<double>(plan.header.total_bytes) / (1 << 20); }
  void drop_input();
};
// Planned, not built.
TestSnapshot plan_members(uint64_t n_keys, weir_layout layout, double bits_per_key);
void build_members(TestSnapshot& snapshot, unsigned threads);  // into zeroed memory
void open_view(TestSnapshot& snapshot);

}  // namespace weir::bench
