// plan_snapshot: is the input something the format can hold, and where does everything go?

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "filter/build/builder.h"
#include "filter/build/gates.h"
#include "filter/build/networks.h"
#include "filter/build/sizing.h"
#include "filter/format/buckets.h"
#include "filter/format/rules.h"
#include "filter/layouts/bitmap.h"
#include "filter/layouts/layout.h"

namespace weir::filter {
namespace {

constexpr KeyShape kNetworkShape = {.family = 4, .addr_bits = 24};

// Ten times the largest list that weir is made for (10^8 entries). Keeps counts of lines and buckets below 2^32.
constexpr uint64_t kMaxKeysPerShape = uint64_t{1} << 30;
constexpr double kMinFalsePositiveRate = 1e-9;

std::string shape_name(KeyShape shape) {
  std::string name = shape.family == 4 ? "v4" : shape.family == 6 ? "v6" : "unknown family";
  if (shape.flow) {
    return name + " flow src/" + std::to_string(shape.addr_bits) + " dst/" + std::to_string(shape.destination_bits) +
           " fields " + std::to_string(shape.flow_fields);
  }
  name += " addr/" + std::to_string(shape.addr_bits);
  if (shape.with_port) name += " + port";
  return name;
}

Result<void> check_lists(const std::vector<ListInfo>& lists) {
  if (lists.size() > WEIR_MAX_LISTS) {
    return Error{std::to_string(lists.size()) + " lists: a snapshot holds at most " + std::to_string(WEIR_MAX_LISTS)};
  }
  std::set<std::string_view> names;
  for (const ListInfo& list : lists) {
    if (!is_list_name(list.name)) return Error{"list name '" + list.name + "' is not [A-Za-z0-9._-]{1,63}"};
    if (!names.insert(list.name).second) return Error{"list name '" + list.name + "' is there twice"};
    if (list.action == WEIR_PASS && list.mode == WEIR_MONITOR) {
      return Error{"list '" + list.name + "': only drop lists can be monitored"};
    }
  }
  return {};
}

Result<void> check_rules(const SnapshotInput& input) {
  if (input.sets.empty() || input.sets.size() > UINT32_MAX) return Error{"sets: set 0 is missing, or too many"};
  if (input.rules.empty() || input.rules.size() > UINT32_MAX) return Error{"rules: rule 0 is missing, or too many"};
  for (size_t id = 0; id < input.sets.size(); id++) {
    if (const char* problem = set_problem(input.sets[id], id, static_cast<uint32_t>(input.lists.size()))) {
      return Error{"set " + std::to_string(id) + " " + problem};
    }
  }
  if (input.residuals.empty() || input.residuals.size() > UINT32_MAX || input.residuals.back().last != 1) {
    return Error{"residuals: residual 0 is missing, or too many, or the last chain has no end"};
  }
  const auto n_sets = static_cast<uint32_t>(input.sets.size());
  uint32_t in_chain = 0;
  for (size_t id = 0; id < input.residuals.size(); id++) {
    if (const char* problem = residual_problem(input.residuals[id], id, n_sets, in_chain)) {
      return Error{"residual " + std::to_string(id) + ": " + problem};
    }
    in_chain = input.residuals[id].last == 1 ? 0 : in_chain + 1;
  }
  for (size_t id = 0; id < input.rules.size(); id++) {
    if (!rule_is_valid(input.rules[id], id, n_sets, input.residuals)) {
      return Error{"rule " + std::to_string(id) + " names a set or chain that is not there"};
    }
  }
  return {};
}

// One table's keys: as many rules as keys, in every word; canonical; rules that are there.
Result<void> check_table(const KeyTable& table, size_t n_rules) {
  const KeyShape shape = table.shape;
  const std::string name = "shape " + shape_name(shape) + ": ";
  if (!shape_is_valid(shape)) return Error{name + "no such key shape"};
  if (table.gate_side > (shape.flow ? WEIR_SIDE_DESTINATION : 0)) return Error{name + "no such side for its gate"};
  if (table.rules.size() > kMaxKeysPerShape) {
    return Error{name + std::to_string(table.rules.size()) + " keys; at most " + std::to_string(kMaxKeysPerShape)};
  }
  if (table.layout == WEIR_LAYOUT_BITMAP) {
    return Error{name + "layout " + std::string(layout_of(table.layout).name) + " is not for its keys"};
  }
  if (!(table.false_positive_rate >= kMinFalsePositiveRate && table.false_positive_rate < 1)) {
    return Error{name + "false-positive rate " + std::to_string(table.false_positive_rate) +
                 " is not between 1e-9 and 1"};
  }
  const Key mask = key_mask(shape);
  for (unsigned w = 0; w < key_words(shape); w++) {
    if (table.words[w].size() != table.rules.size()) return Error{name + "keys and rules differ in number"};
    uint64_t outside = 0;
    for (uint64_t word : table.words[w]) outside |= word & ~mask.word[w];
    if (outside != 0) return Error{name + "a key has bits outside its shape"};
  }
  for (uint32_t rule : table.rules) {
    if (rule == 0 || rule >= n_rules) return Error{name + "rule " + std::to_string(rule) + " is not there"};
  }
  return {};
}

Result<void> check_networks(const std::vector<NetworkRun>& runs, size_t n_rules) {
  uint64_t next = 0;
  for (const NetworkRun& run : runs) {
    if (run.first < next || run.last < run.first || run.last >= WEIR_BITMAP_BITS) {
      return Error{"networks: run " + std::to_string(run.first) + ".." + std::to_string(run.last) +
                   " is out of order or out of range"};
    }
    if (run.rule == 0 || run.rule >= n_rules) {
      return Error{"networks: rule " + std::to_string(run.rule) + " is not there"};
    }
    next = uint64_t{run.last} + 1;
  }
  return {};
}

Result<void> check_shapes(const SnapshotInput& input) {
  std::vector<KeyShape> shapes;
  for (const KeyTable& table : input.tables) shapes.push_back(table.shape);
  if (!input.networks.empty()) shapes.push_back(kNetworkShape);
  for (size_t i = 0; i < shapes.size(); i++) {
    if (std::count(shapes.begin(), shapes.end(), shapes[i]) != 1) {
      return Error{"shape " + shape_name(shapes[i]) + " is there twice"};
    }
    const uint8_t family = shapes[i].family;
    const auto same = std::count_if(shapes.begin(), shapes.end(), [&](KeyShape s) { return s.family == family; });
    if (same > WEIR_MAX_SHAPES_PER_FAMILY) {
      return Error{std::to_string(same) + " key shapes for IPv" + std::to_string(family) +
                   ": a snapshot holds at most " + std::to_string(WEIR_MAX_SHAPES_PER_FAMILY)};
    }
  }
  return {};
}

Result<void> check_input(const SnapshotInput& input) {
  if ((input.tunnels & ~WEIR_TUNNELS) != 0) return Error{"tunnels: " + std::to_string(input.tunnels) + " is not known"};
  if (auto ok = check_lists(input.lists); !ok) return ok;
  if (auto ok = check_rules(input); !ok) return ok;
  if (auto ok = check_shapes(input); !ok) return ok;
  for (const KeyTable& table : input.tables) {
    if (auto ok = check_table(table, input.rules.size()); !ok) return ok;
  }
  return check_networks(input.networks, input.rules.size());
}

// Hands out page-aligned sections one behind the other.
class Sections {
 public:
  weir_section add(uint64_t size_bytes) {
    const weir_section section = {next_, size_bytes};
    next_ += round_to_pages(size_bytes);
    return section;
  }
  void place(weir_section& section) { section = add(section.size_bytes); }
  uint64_t total_bytes() const { return next_; }

 private:
  static uint64_t round_to_pages(uint64_t bytes) {
    return (bytes + WEIR_PAGE_BYTES - 1) / WEIR_PAGE_BYTES * WEIR_PAGE_BYTES;
  }
  uint64_t next_ = round_to_pages(sizeof(weir_snapshot_header));
};

weir_shape describe(KeyShape shape, weir_layout layout) {
  weir_shape out = {};
  out.family = shape.family;
  out.addr_bits = shape.addr_bits;
  out.with_port = shape.with_port;
  out.flow = shape.flow;
  out.destination_bits = shape.destination_bits;
  out.flow_fields = shape.flow_fields;
  out.layout = static_cast<weir_u8>(layout);
  return out;
}

// All of a shape but where its sections begin.
Result<weir_shape> plan_table(const KeyTable& table, const SnapshotInput& input) {
  weir_shape shape = describe(table.shape, table.layout);
  shape.gate_side = table.gate_side;
  shape.directions = table.asked;
  for (uint32_t rule : table.rules) shape.directions |= sides_of(input.rules[rule]);
  shape.n_keys = table.rules.size();
  const std::optional<FilterSize> size = size_filter(table.layout, shape.n_keys, table.false_positive_rate);
  if (!size) {
    return Error{"shape " + shape_name(table.shape) + ": no " + std::string(layout_of(table.layout).name) +
                 " filter keeps " + std::to_string(shape.n_keys) + " keys at a false-positive rate of " +
                 std::to_string(table.false_positive_rate)};
  }
  shape.filter_lines = size->lines;
  shape.k = size->k;
  shape.exact_buckets = exact_buckets(shape.n_keys, slots_per_bucket(table.shape), buckets_per_page(table.shape));
  shape.filter.size_bytes = uint64_t{shape.filter_lines} * WEIR_LINE_BYTES;
  shape.exact.size_bytes = exact_stage_bytes(table.shape, shape.exact_buckets);
  return shape;
}

weir_shape plan_networks(const SnapshotInput& input) {
  weir_shape shape = describe(kNetworkShape, WEIR_LAYOUT_BITMAP);
  for (const NetworkRun& run : input.networks) {
    shape.directions |= sides_of(input.rules[run.rule]);
    shape.n_keys += run.last - run.first + 1;
  }
  shape.k = 1;
  shape.filter_lines = WEIR_BITMAP_BYTES / WEIR_LINE_BYTES;
  shape.filter.size_bytes = WEIR_BITMAP_BYTES;
  shape.exact.size_bytes = kChunkSlots * sizeof(uint32_t);
  shape.chunks.size_bytes = network_rules(input.networks).chunks.size() * sizeof(RuleChunk);
  return shape;
}

}  // namespace

Result<SnapshotPlan> plan_snapshot(const SnapshotInput& input) {
  if (auto ok = check_input(input); !ok) return Error{ok.error()};

  SnapshotPlan plan = {};
  weir_snapshot_header& header = plan.header;
  header.magic = WEIR_SNAPSHOT_MAGIC;
  header.version = WEIR_SNAPSHOT_VERSION;
  header.header_bytes = sizeof header;
  header.epoch = input.epoch;
  header.number = input.number;
  header.built_unix_s = input.built_unix_s;
  header.secret[0] = input.secret[0];
  header.secret[1] = input.secret[1];
  header.default_action = static_cast<weir_u8>(input.default_action);
  header.unparsed_action = static_cast<weir_u8>(input.unparsed_action);
  header.tunnels = input.tunnels;
  header.n_lists = static_cast<weir_u32>(input.lists.size());
  header.n_sets = static_cast<weir_u32>(input.sets.size());
  header.n_rules = static_cast<weir_u32>(input.rules.size());
  header.n_residuals = static_cast<weir_u32>(input.residuals.size());
  for (unsigned l = 0; l < header.n_lists; l++) {
    list_mask(header, input.lists[l].action, input.lists[l].mode)[l / 64] |= uint64_t{1} << (l % 64);
  }

  for (const unsigned family : {4u, 6u}) {
    for (const KeyTable& table : input.tables) {
      if (table.shape.family != family) continue;
      const Result<weir_shape> shape = plan_table(table, input);
      if (!shape) return Error{shape.error()};
      header.shapes[header.n_shapes++] = *shape;
    }
    if (family == 4 && !input.networks.empty()) header.shapes[header.n_shapes++] = plan_networks(input);
  }
  if (auto ok = plan_gates(input, header); !ok) return Error{ok.error()};

  Sections sections;
  header.lists = sections.add(input.lists.size() * sizeof(weir_list));
  header.sets = sections.add(input.sets.size() * sizeof(weir_set));
  header.rules = sections.add(input.rules.size() * sizeof(weir_rule));
  header.residuals = sections.add(input.residuals.size() * sizeof(weir_residual));
  place_gates(input, header, [&](weir_section& section) { sections.place(section); });
  for (weir_shape& shape : std::span(header.shapes, header.n_shapes)) {
    sections.place(shape.filter);
    sections.place(shape.exact);
    if (shape.layout == WEIR_LAYOUT_BITMAP) sections.place(shape.chunks);
  }
  header.total_bytes = sections.total_bytes();
  return plan;
}

}  // namespace weir::filter
